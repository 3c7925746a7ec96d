"""Bad records: refused, left out, or kept in their place."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mainstay.connectors.formats.malformed import (
    MALFORMED_COLUMN,
    BadRecord,
    Malformed,
    malformed_type,
    settle,
)
from mainstay.errors import GraphError, SourceError
from mainstay.schema import to_schema

SCHEMA = to_schema("n long not null")
GOOD = pa.record_batch([pa.array([0, 2, 3])], schema=SCHEMA)
FIRST, SECOND = BadRecord("t-0@1", "no JSON", b"{"), BadRecord("t-0@4", "no long", b"x")


def test_the_first_bad_record_is_an_error_that_names_it_and_the_ways_out() -> None:
    with pytest.raises(SourceError, match=r"t-0@1 .*no JSON.*malformed='skip'.*malformed='side'"):
        settle("fail", GOOD, {4: SECOND, 1: FIRST})


def test_skipped_records_leave_the_rows_and_the_schema_alone() -> None:
    assert settle("skip", GOOD, {1: FIRST}) is GOOD
    assert Malformed.with_column(SCHEMA, "skip") is SCHEMA
    assert Malformed.column_of("skip") is None


def test_bad_records_on_the_side_are_rows_in_their_own_place() -> None:
    schema = Malformed.with_column(SCHEMA, "side")
    assert schema.field("n").nullable
    assert schema.field(MALFORMED_COLUMN).type == malformed_type()
    batch = settle("side", GOOD, {1: FIRST, 4: SECOND})
    assert batch.schema.equals(schema)
    assert batch.column("n").to_pylist() == [0, None, 2, 3, None]
    told = batch.column(MALFORMED_COLUMN).to_pylist()
    assert told[1] == {"position": "t-0@1", "error": "no JSON", "raw": b"{"}
    assert [each is None for each in told] == [True, False, True, True, False]


def test_rows_without_bad_records_get_the_column_as_well() -> None:
    batch = settle("side", GOOD, {})
    assert batch.schema.equals(Malformed.with_column(SCHEMA, "side"))
    assert batch.column(MALFORMED_COLUMN).null_count == 3


def test_nothing_but_bad_records_is_a_batch_of_them() -> None:
    batch = settle("side", GOOD.slice(0, 0), {0: FIRST})
    assert batch.to_pylist()[0]["n"] is None
    assert batch.num_rows == 1


def test_a_policy_and_a_schema_are_checked() -> None:
    with pytest.raises(GraphError, match=r"Files\(malformed='drop'\) must be one of 'fail'"):
        Malformed.check("drop", "Files")
    with pytest.raises(GraphError, match="Give that column another name"):
        Malformed.with_column(to_schema("_malformed string"), "side")

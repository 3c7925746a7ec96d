"""Values in JSON, both ways."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import StateTypeError
from mainstay.inspect.answer_streams import as_stream
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.json_values import key_of, plain
from mainstay.serve.rows import as_lists, as_objects, cut, most_rows, wants_arrow
from mainstay.snapshot.manifest import StateSchema

AT = datetime(2026, 11, 17, 9, 30, 0, 250_000, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**62, 2**62),
        (1.5, 1.5),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (b"\x00\xff", "00ff"),
        (AT, "2026-11-17T09:30:00.250000+00:00"),
        (date(2026, 11, 17), "2026-11-17"),
        (timedelta(seconds=90), 90.0),
        (Decimal("10.50"), "10.50"),
        ({"a": [b"\x01", {"b": AT.date()}]}, {"a": ["01", {"b": "2026-11-17"}]}),
        ([(1, math.inf)], [[1, "inf"]]),
    ],
)
def test_a_value_is_shown_as_json_has_it(value: Any, shown: Any) -> None:
    assert plain(value) == shown
    json.dumps(plain(value), allow_nan=False)


def columns(key_type: str, *names: str) -> StateColumns:
    return StateColumns("sums", StateSchema("total", "value", "long"), key_type, names)


@pytest.mark.parametrize(
    ("key_type", "sent", "key"),
    [
        ("string", "ada", "ada"),
        ("long", 7, 7),
        ("long", "7", 7),
        ("long", [7], 7),
        ("long", None, None),
        ("boolean", True, True),
        ("double", 1, 1.0),
        ("binary", "00ff", b"\x00\xff"),
        ("date", "2026-11-17", date(2026, 11, 17)),
        ("timestamp", "2026-11-17T09:30:00.250", AT),
        ("timestamp", "2026-11-17T10:30:00.250+01:00", AT),
        ("timestamp", "2026-11-17T09:30:00.250Z", AT),
        ("timestamp_ntz", "2026-11-17T09:30:00.250", AT.replace(tzinfo=None)),
        ("decimal(10,2)", "10.50", Decimal("10.50")),
    ],
)
def test_a_key_is_taken_as_the_type_of_its_column(key_type: str, sent: Any, key: Any) -> None:
    assert key_of(columns(key_type, "k"), sent) == key


def test_a_key_of_several_columns_is_a_list_or_an_object() -> None:
    both = columns("struct<customer:string,region:int>", "customer", "region")
    assert key_of(both, ["ada", "3"]) == ("ada", 3)
    assert key_of(both, {"region": 3, "customer": "ada"}) == {"region": 3, "customer": "ada"}
    with pytest.raises(StateTypeError, match="a value for each of"):
        key_of(both, ["ada"])


@pytest.mark.parametrize(
    ("key_type", "sent"),
    [
        ("long", "seven"),
        ("long", 7.5),
        ("long", 2**70),
        ("long", True),
        ("boolean", 1),
        ("string", 7),
        ("timestamp_ntz", "2026-11-17T09:30:00Z"),
        ("long", {"k": "seven"}),
        ("binary", "zz"),
        ("date", "tomorrow"),
        ("int", 2**40),
    ],
)
def test_a_key_that_does_not_fit_is_named_with_its_type(key_type: str, sent: Any) -> None:
    with pytest.raises(StateTypeError, match=r"is no .*'k'"):
        key_of(columns(key_type, "k"), sent)


# ---------------------------------------------------------------- rows


def test_rows_have_a_bound_that_depends_on_their_form() -> None:
    assert most_rows(None, as_arrow=False) == 1_000
    assert most_rows(5, as_arrow=False) == 5
    assert most_rows(10**9, as_arrow=False) == 10_000
    assert most_rows(None, as_arrow=True) == most_rows(10**9, as_arrow=True) == 1_000_000


def test_rows_are_cut_and_it_is_known() -> None:
    table = pa.table({"a": [1, 2, 3]})
    assert cut(table, 2) == (table.slice(0, 2), True)
    assert cut(table, 3) == (table, False)


def test_rows_are_objects_lists_or_a_stream() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([b"\x01"])], names=["a", "a"])
    assert as_lists(table) == [[1, "01"]]
    assert as_lists(table.slice(0, 0)) == []
    assert as_objects(table.select([1])) == [{"a": "01"}]
    assert pa.ipc.open_stream(as_stream(table)).read_all() == table


def test_arrow_is_sent_to_who_accepts_it() -> None:
    assert wants_arrow("application/json, Application/vnd.apache.arrow.stream;q=0.9")
    assert not wants_arrow("*/*")

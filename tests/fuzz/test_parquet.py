"""Parquet files that are damaged, or of another schema: an error that names the file, no crash."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings

from mainstay.connectors import Files
from mainstay.errors import SourceError
from tests.fuzz.damage import damaged
from tests.fuzz.reading import Child, same
from tests.roundtrips.kinds import examples

SCHEMA = "n long, name string, more array<int>, at timestamp, d decimal(5,2)"


def parquet(table: pa.Table, **settings: Any) -> bytes:
    to = io.BytesIO()
    pq.write_table(table, to, **settings)
    return to.getvalue()


GOOD = parquet(
    pa.table(
        {
            "n": pa.array(range(9), pa.int64()),
            "name": [f"name {n % 3}" for n in range(9)],
            "more": pa.array([[n, None] for n in range(9)], pa.list_(pa.int32())),
            "at": pa.array(range(9), pa.timestamp("us", tz="UTC")),
            "d": pa.array([1] * 9, pa.decimal128(5, 2)),
        }
    ),
    row_group_size=4,
    compression="none",
)


def told_of(child: Child, data: bytes, schema: str = SCHEMA) -> Any:
    """Rows or an error, the same for all sizes of batches."""
    path = child.write(data, "data.parquet")
    outcomes = [
        child.read(path, schema, policy, *sizes)
        for policy, *sizes in (("fail", 8192), ("fail", 2, 1), ("skip", 3))
    ]
    for outcome in outcomes:
        assert outcome.error is None or path in outcome.error, outcome.error
    return same(outcomes)


@settings(max_examples=examples(40))
@given(damaged(GOOD, most=2))
@example(GOOD[:-4])
@example(GOOD[:-8] + b"\xff\xff\xff\x7fPAR1")
@example(GOOD[:-8] + b"\x00\x00\x00\x00PAR1")
@example(b"PAR1")
@example(b"")
def test_damaged_parquet_is_rows_or_an_error_that_names_the_file(child: Child, data: bytes) -> None:
    told = told_of(child, data)
    assert told.error is not None or told.bad == 0


def test_columns_are_found_by_name_whatever_their_order_and_width(child: Child) -> None:
    table = pa.table({"x": ["?"], "b": pa.array([7], pa.int16()), "a": ["t"]})
    told = told_of(child, parquet(table), "a string, b long")
    assert told.rows == ["{'a': 't', 'b': 7}"]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([2**40], pa.int64()), "int"),
        (pa.array(["x"]), "long"),
        (pa.array([1.5]), "long"),
        (pa.array([None], pa.int64()), "long not null"),
        (pa.array([b"\xff"]), "string"),
        (pa.array([{"x": None}], pa.struct([("x", pa.int64())])), "struct<x:long not null>"),
    ],
)
def test_values_that_do_not_fit_the_schema_are_an_error(
    child: Child, column: pa.Array, kind: str
) -> None:
    assert told_of(child, parquet(pa.table({"v": column})), f"v {kind}").error is not None


# ---------------------------------------------------------------- files that change


@pytest.mark.parametrize("format", ["csv", "json"])
@pytest.mark.parametrize("change", ["grows", "vanishes", "is cut off"])
def test_a_file_that_changes_while_it_is_read_is_an_error_that_names_it(
    tmp_path: Any, format: str, change: str
) -> None:
    file = tmp_path / f"data.{format}"
    line, head = ('{"n":1}\n', "") if format == "json" else ("1\n", "n\n")
    file.write_text(head + line * 50)
    source = Files(file, schema="n long", batch_rows=5)
    (split,) = source.plan(frozenset())
    reader = source.read(split, None)
    assert reader.poll(5).batch is not None
    if change == "vanishes":
        file.unlink()
    else:
        file.write_text(head + line * (60 if change == "grows" else 3))
    with pytest.raises(SourceError, match=f"data.{format}"):  # noqa: PT012 - it may be any poll
        while not reader.poll(5).finished:
            pass

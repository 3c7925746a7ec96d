"""What a file sink writes is what the files source reads: every format, every type, any value."""

from __future__ import annotations

import math
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mainstay as ms
from mainstay.connectors import Files, ParquetSink, SinkContext, read_committed
from mainstay.connectors.files.sink import FileSink
from mainstay.errors import GraphError
from mainstay.schema import batch_to_rows, row_class, rows_to_batch, to_schema
from tests.searching import examples
from tests.sinks import prepare, write

FORMATS = ("parquet", "csv", "json")
_utc = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda at: at.replace(tzinfo=timezone.utc)
)
_floats32 = st.floats(width=32)
FLAT: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-128, 127),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": _floats32,
    "double": st.floats(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "date": st.dates(),
    "timestamp": _utc,
    "timestamp_ntz": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    "decimal(12,3)": st.decimals(-999999, 999999, places=3),
}
BYTES = {"binary": st.binary(max_size=5)}


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


def nested(inner: dict[str, st.SearchStrategy[Any]]) -> dict[str, st.SearchStrategy[Any]]:
    types: dict[str, st.SearchStrategy[Any]] = {}
    for name, values in inner.items():
        types[f"array<{name}>"] = st.lists(_or_null(values), max_size=3)
        types[f"struct<a:{name},b:string>"] = st.fixed_dictionaries(
            {"a": _or_null(values), "b": _or_null(st.sampled_from(["NaN", "x", ""]))}
        )
        types[f"map<string,{name}>"] = st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3), values, max_size=3
        )
    for key in ("int", "boolean", "date", "decimal(12,3)", "binary", "timestamp"):
        types[f"map<{key},string>"] = st.dictionaries({**FLAT, **BYTES}[key], st.just("x"))
    return types


TYPES = {
    "csv": FLAT,
    "json": {**FLAT, **BYTES, **nested({**FLAT, **BYTES})},
    "parquet": {**FLAT, **BYTES, **nested({**FLAT, **BYTES})},
}


def tables(format: str) -> st.SearchStrategy[tuple[str, list[tuple[Any, ...]]]]:
    """A schema and rows of it."""

    def rows(names: list[str]) -> st.SearchStrategy[tuple[str, list[tuple[Any, ...]]]]:
        ddl = ", ".join(f"c{number} {name}" for number, name in enumerate(names))
        row = st.tuples(*(_or_null(TYPES[format][name]) for name in names))
        return st.tuples(st.just(ddl), st.lists(row, min_size=1, max_size=6))

    return st.lists(st.sampled_from(sorted(TYPES[format])), min_size=1, max_size=3).flatmap(rows)


def comparable(value: Any) -> Any:
    """Rows as something that is equal to itself also where it is no number."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dict):
        return {comparable(key): comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    return value


def plain(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[Any]:
    rows = [row for batch in batches for row in batch_to_rows(batch, row_class(schema))]
    return [comparable(tuple(row)) for row in rows]


def read_by_source(path: Path, ddl: str, malformed: str) -> list[Any]:
    source = Files(path, schema=ddl, malformed=malformed)
    found: list[pa.RecordBatch] = []
    for split in source.plan(frozenset()):
        reader = source.read(split, None)
        while not (polled := reader.poll(100)).finished:
            if polled.batch is not None:
                found.append(polled.batch)
        assert reader.skipped == 0
    return plain(found, source.schema)


def check_round_trip(format: str, ddl: str, rows: list[tuple[Any, ...]]) -> None:
    schema = to_schema(ddl)
    batch = rows_to_batch(rows, schema, "a test")
    expected = plain([batch], schema)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        sink = FileSink(path, format=format)
        sink.check_schema(schema)
        writer = sink.open(SinkContext("out", 0, 1, "job"))
        write(writer, batch)
        handle = prepare(writer, 1)
        assert handle is not None
        sink.commit_epoch(1, [handle])
        for policy in ("fail", "skip"):
            assert read_by_source(path, ddl, policy) == expected
        assert plain(read_committed(path, ddl).to_batches(), schema) == expected


@settings(deadline=None, max_examples=examples(120))
@given(tables("csv"))
@example(("c0 long", [(None,), (1,), (None,), (None,)]))
@example(("c0 string", [(None,), ("",), ("\r\n",), (None,)]))
@example(("c0 double", [(math.nan,), (math.inf,), (-math.inf,), (None,)]))
def test_csv_is_read_back_as_what_it_was(table: tuple[str, list[tuple[Any, ...]]]) -> None:
    check_round_trip("csv", *table)


@settings(deadline=None, max_examples=examples(120))
@given(tables("json"))
@example(("c0 binary", [(b"",), (b"\xff",), (b"YWI=",), (None,)]))
@example(("c0 double", [(math.nan,), (math.inf,), (-math.inf,), (None,), (1.5,)]))
@example(("c0 map<string,string>", [({},), (None,), ({"": ""},)]))
def test_json_is_read_back_as_what_it_was(table: tuple[str, list[tuple[Any, ...]]]) -> None:
    check_round_trip("json", *table)


@settings(deadline=None, max_examples=examples(60))
@given(tables("parquet"))
def test_parquet_is_read_back_as_what_it_was(table: tuple[str, list[tuple[Any, ...]]]) -> None:
    check_round_trip("parquet", *table)


@pytest.mark.parametrize("name", ["binary", "array<int>", "struct<a:int>", "map<string,int>"])
def test_what_csv_has_no_spelling_for_is_refused_when_the_job_is_built(
    tmp_path: Path, name: str
) -> None:
    env = ms.Environment()
    stream = env.source(Files(tmp_path, schema=f"c {name}, n int", format="parquet", watch=True))
    with pytest.raises(GraphError, match=r"column 'c'.*csv has no spelling.*Parquet"):
        stream.sink(FileSink(tmp_path / "out", format="csv"), uid="out")
    stream.sink(FileSink(tmp_path / "other", format="json"), uid="out")


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_a_column_that_cannot_be_a_directory_is_refused_when_the_job_is_built(
    tmp_path: Path, make: Any
) -> None:
    env = ms.Environment()
    stream = env.source(Files(tmp_path, schema="c double, n int", format="csv", watch=True))
    with pytest.raises(GraphError, match=r"partition_by.*'c'.*double"):
        stream.sink(make(tmp_path / "out", partition_by="c"), uid="out")

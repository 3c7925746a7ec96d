"""Partitions by any column and any value: rows are found where readers look for them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstay.connectors import DeltaSink, Files, FileSink, ParquetSink, read_committed
from mainstay.connectors.files.hive_partitions import DEFAULT
from mainstay.errors import SinkError
from tests.roundtrips import kinds
from tests.roundtrips.carrying import committed, read
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import of_type, rows_of
from tests.roundtrips.spellings import from_csv

KINDS = [
    kind
    for kind in kinds.LEAVES
    if not pa.types.is_floating(kind)
    and not pa.types.is_binary(kind)
    and not pa.types.is_timestamp(kind)
]


@st.composite
def partitioned(draw: Any) -> Table:
    """Rows whose first column is what they are partitioned by, and whose second counts them."""
    name = draw(kinds.names().filter(lambda name: name != "n"))
    kind = draw(st.sampled_from(KINDS))
    values = draw(st.lists(kinds.values_of(kind), min_size=1, max_size=6))
    schema = pa.schema([pa.field(name, kind), pa.field("n", pa.int32())])
    return Table(schema, (tuple(values), tuple(range(len(values)))))


def by_number(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row[1][1])


def expected_of(table: Table) -> list[Any]:
    """The rows, with null in the place of the empty text: a directory has one name for both."""
    return rows_of(((None if key == "" else key, n) for key, n in table.rows), table.schema)


def is_held(table: Table) -> bool:
    """Whether there is a directory for every value, into which readers look."""
    if table.schema.names[0].startswith("."):
        return False
    texts = (value for value in table.columns[0] if isinstance(value, str))
    return DEFAULT not in table.columns[0] and all(len(text.encode()) < 70 for text in texts)


def in_folders(path: Path, schema: pa.Schema) -> list[Any]:
    """What a reader of Hive's directories makes of one, in code of its own."""
    rows = []
    for file in path.rglob("*.parquet"):
        place = file.relative_to(path).parts
        if place[0] == "_mainstay":
            continue
        name, _, value = place[0].partition("=")
        assert unquote(name) == schema.names[0]
        text = None if value == DEFAULT else unquote(value)
        key = of_type(from_csv(text, schema.field(0).type), schema.field(0).type)
        numbers = pq.ParquetFile(file).read().column("n").to_pylist()
        rows += [[key, of_type(number, pa.int32())] for number in numbers]
    return by_number(rows)


def check_folders(make: Any, table: Table) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "out"
        sink = make(path, partition_by=table.schema.names[0])
        if not is_held(table):
            with pytest.raises(SinkError, match="partition_by"):
                committed(sink, table.batch)
            return
        committed(sink, table.batch)
        expected = expected_of(table)
        assert in_folders(path, table.schema) == expected
        found = read_committed(path, table.schema)
        rows = zip(*(found.column(at).to_pylist() for at in range(2)), strict=True)
        assert by_number(rows_of(rows, table.schema)) == expected


def by_text(*values: str, name: str = "k") -> Table:
    schema = pa.schema([(name, pa.string()), ("n", pa.int32())])
    return Table(schema, (values, tuple(range(len(values)))))


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_a_value_that_readers_take_for_null_is_refused(make: Any, tmp_path: Path) -> None:
    sink = make(tmp_path / "out", partition_by="k")
    with pytest.raises(SinkError, match=r"'k'.*take for null. Replace it"):
        committed(sink, by_text(DEFAULT, "a").batch)


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_a_column_whose_directories_are_hidden_is_refused_before_the_job_starts(
    make: Any, tmp_path: Path
) -> None:
    sink = make(tmp_path / "out", partition_by=".k")
    with pytest.raises(SinkError, match=r"'.k'.*begin with a dot. Rename"):
        sink.check_schema(by_text("a", name=".k").schema)


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_partitions_by_a_column_with_an_underscore_first_are_read(
    make: Any, tmp_path: Path
) -> None:
    committed(make(tmp_path / "out", partition_by="_k"), by_text("a", "b", name="_k").batch)
    found = read(Files(tmp_path / "out", schema="n int", format="parquet"))
    assert sorted(found.column("n").to_pylist()) == [0, 1]


ODD = [kind for kind in [*kinds.LEAVES, pa.list_(pa.int32())] if kind not in KINDS]


@pytest.mark.parametrize("make", [FileSink, ParquetSink, DeltaSink])
@pytest.mark.parametrize("kind", ODD, ids=str)
def test_values_without_one_spelling_are_refused_before_anything_is_written(
    make: Any, kind: pa.DataType, tmp_path: Path
) -> None:
    schema = pa.schema([pa.field("k", kind), pa.field("n", pa.int32())])
    with pytest.raises(SinkError, match=r"'k' of type .* no one spelling.*Partition by"):
        committed(make(tmp_path / "out", partition_by="k"), Table(schema, ((None,), (1,))).batch)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_rows_are_in_the_directory_of_their_value(make: Any) -> None:
    @settings(max_examples=kinds.examples(30))
    @given(partitioned())
    @example(by_text(DEFAULT, "a"))
    @example(by_text(*(text for text in kinds.TEXTS if len(text) < 40)))
    def check(table: Table) -> None:
        check_folders(make, table)

    check()


def check_delta(table: Table) -> None:
    deltalake = pytest.importorskip("deltalake")
    with tempfile.TemporaryDirectory() as name:
        sink = DeltaSink(name, partition_by=table.schema.names[0])
        if DEFAULT in table.columns[0]:
            with pytest.raises(SinkError, match="partition_by"):
                committed(sink, table.batch)
            return
        committed(sink, table.batch)
        engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(name))
        found = pa.table(engine.execute("select * from t"))
        columns = (found.column(name).to_pylist() for name in table.schema.names)
        rows = rows_of(zip(*columns, strict=True), table.schema)
        assert by_number(rows) == expected_of(table)


@settings(max_examples=kinds.examples(30))
@given(partitioned())
@example(by_text(DEFAULT, "a"))
@example(by_text(*(text for text in kinds.TEXTS if len(text) < 40)))
def test_rows_of_a_delta_table_are_in_the_partition_of_their_value(table: Table) -> None:
    check_delta(table)

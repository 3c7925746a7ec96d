"""Rows in a Delta table, new or there already, as deltalake itself reads them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings

from mainstay.connectors import DeltaSink, SinkContext
from mainstay.errors import SinkError
from tests.roundtrips import kinds
from tests.roundtrips.carrying import committed
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import arrow_rows, rows_of
from tests.sinks import prepare, write

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")


def seen(path: str) -> pa.Table:
    table = deltalake.DeltaTable(path)
    engine = deltalake.QueryBuilder().register("t", table)
    try:
        return pa.table(engine.execute("select * from t"))
    except pa.ArrowInvalid as error:
        # Its engine cannot read every table that it writes: where an element of a list is null, it
        # misses the struct within it that is never null. Its files have the rows.
        if "unmasked nulls" not in str(error):
            raise
        return table.to_pyarrow_table()


def is_unmade(table: Table) -> bool:
    """Whether deltalake makes no such table: times without a zone in maps, and nowhere else."""
    kinds_of = str(table.schema)
    is_found = any(_holds_plain_times(field.type) for field in table.schema)
    return "timestamp[us]" in kinds_of and not is_found


def _holds_plain_times(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return False
    inner = (kind.field(at).type for at in range(kind.num_fields))
    return kind == pa.timestamp("us") or any(map(_holds_plain_times, inner))


def check_written(table: Table) -> None:
    expected = rows_of(table.rows, table.schema)
    with tempfile.TemporaryDirectory() as path:
        committed(DeltaSink(path), table.batch)
        assert arrow_rows(seen(path), table.schema) == expected
        committed(DeltaSink(path), table.batch)
        doubled = arrow_rows(seen(path), table.schema)
        assert sorted(doubled, key=repr) == sorted([*expected, *expected], key=repr)


def check_written_by_others_first(table: Table) -> None:
    expected = rows_of(table.rows, table.schema)
    with tempfile.TemporaryDirectory() as path:
        deltalake.write_deltalake(path, pa.Table.from_batches([table.batch]))
        committed(DeltaSink(path), table.batch)
        doubled = arrow_rows(seen(path), table.schema)
        assert sorted(doubled, key=repr) == sorted([*expected, *expected], key=repr)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("a", pa.int32()), ("A", pa.int32())]),
        pa.schema([("a", pa.map_(pa.string(), pa.timestamp("us")))]),
    ],
)
def test_rows_that_no_table_can_be_made_for_are_refused_before_an_epoch_holds_them(
    schema: pa.Schema, tmp_path: Path
) -> None:
    writer = DeltaSink(tmp_path).open(SinkContext("out", 0, 1, "job"))
    write(writer, pa.RecordBatch.from_pylist([{"a": None}], schema))
    with pytest.raises(SinkError, match=r"no Delta table can be made.*Rename or convert"):
        prepare(writer, 1)
    assert not list(tmp_path.iterdir())


def test_every_listed_value_of_every_type_is_written_as_it_is() -> None:
    # deltalake looks for such times everywhere but in maps.
    with_feature = kinds.one_column(pa.timestamp("us"), None)
    check_written(kinds.wide([*kinds.catalogue(), with_feature]))


def test_a_null_element_that_has_a_struct_which_is_never_null_is_written() -> None:
    inner = pa.struct([pa.field("a", pa.bool_(), nullable=False)])
    element = pa.struct([pa.field("a", inner, nullable=False)])
    schema = pa.schema([pa.field("a", pa.list_(element), nullable=False)])
    check_written(Table(schema, (([None, {"a": {"a": False}}],),)))


@settings(max_examples=kinds.examples(20))
@given(kinds.tables())
def test_drawn_rows_are_written_as_they_are(table: Table) -> None:
    if is_unmade(table):
        with pytest.raises(SinkError, match="no Delta table can be made"):
            check_written(table)
    else:
        check_written(table)


@settings(max_examples=kinds.examples(15))
@given(kinds.tables())
def test_rows_are_added_to_a_table_of_others(table: Table) -> None:
    if not is_unmade(table):
        check_written_by_others_first(table)

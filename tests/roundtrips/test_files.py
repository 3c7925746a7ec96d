"""What file sinks write others read, and what others write ``Files`` reads: every value."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.connectors import Files, FileSink, read_committed
from mainstay.errors import SinkError
from tests.roundtrips import kinds
from tests.roundtrips.carrying import committed, read
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import arrow_rows, rows_of
from tests.roundtrips.spellings import csv_fields, from_csv, from_json, to_csv, to_json

FORMATS = ("parquet", "json", "csv")


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def files_in(directory: Path) -> list[Path]:
    return sorted(
        path
        for path in directory.rglob("*")
        if path.is_file() and not any(part[0] in "._" for part in path.relative_to(directory).parts)
    )


def seen_by_others(path: Path, schema: pa.Schema) -> list[Any]:
    """The rows of a file, by a reader that is not ours."""
    if path.name.endswith(".parquet"):
        return arrow_rows(pq.ParquetFile(path).read(), schema)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".json" in path.name:
        objects = [json.loads(line) for line in data.split(b"\n")[:-1]]
        assert all(found.keys() <= set(schema.names) for found in objects)
        rows = [[from_json(o.get(f.name), f.type) for f in schema] for o in objects]
        return rows_of(rows, schema)
    header, *records = csv_fields(data.decode())
    assert header == schema.names
    rows = [[from_csv(t, f.type) for t, f in zip(r, schema, strict=True)] for r in records]
    return rows_of(rows, schema)


def check_written(table: Table, format: str) -> None:
    """A sink writes the rows, and others as well as ourselves see them; or it refuses them."""
    expected = rows_of(table.rows, table.schema)
    with folder() as path:
        sink = FileSink(path / "out", format=format)
        committed(sink, table.batch)
        found = [
            row for file in files_in(path / "out") for row in seen_by_others(file, table.schema)
        ]
        assert found == expected
        assert arrow_rows(read_committed(path / "out", table.schema), table.schema) == expected
        for policy in ("fail", "skip", "side"):
            source = Files(path / "out", schema=table.schema, malformed=policy)
            assert arrow_rows(read(source, 2), table.schema) == expected, policy


def is_refused(table: Table, format: str) -> bool:
    """Whether the sink says that it cannot take such rows, before it has written anything."""
    try:
        FileSink("out", format=format).check_schema(table.schema)
    except SinkError:
        return True
    return False


def test_an_absent_struct_may_have_fields_that_are_declared_not_null() -> None:
    kind = pa.list_(pa.struct([pa.field("a", pa.bool_(), nullable=False)]))
    check_written(kinds.one_column(kind, [None], [{"a": True}], None), "json")


@pytest.mark.parametrize("format", FORMATS)
def test_every_listed_value_of_every_type_is_written_as_it_is(format: str) -> None:
    taken = [table for table in kinds.catalogue() if not is_refused(table, format)]
    assert len(taken) == {"parquet": 100, "json": 100, "csv": 19}[format]
    check_written(kinds.wide(taken), format)


def drawn(format: str) -> Any:
    return kinds.tables(kinds.types(is_nested=format != "csv"))


@pytest.mark.parametrize("format", FORMATS)
def test_drawn_rows_are_written_as_they_are(format: str) -> None:
    @settings(max_examples=kinds.examples(25))
    @given(drawn(format))
    def check(table: Table) -> None:
        if not is_refused(table, format):
            check_written(table, format)

    check()


# ---------------------------------------------------------------- written by others


def write_as_others(path: Path, table: Table, variant: int) -> None:
    """The rows in a file, by a writer that is not ours, in one of the ways there are."""
    if path.suffix == ".parquet":
        pq.write_table(
            pa.Table.from_batches([table.batch]),
            path,
            row_group_size=1 + variant % 3,
            compression=("snappy", "none", "gzip")[variant % 3],
            use_dictionary=bool(variant & 1),
            data_page_version=("1.0", "2.0")[variant & 1],
        )
        return
    end = ("\n", "\r\n")[variant & 1]
    if path.suffix == ".json":
        objects = [
            {f.name: to_json(v, f.type) for f, v in zip(table.schema, row, strict=True)}
            for row in table.rows
        ]
        is_plain = bool(variant & 2)
        lines = [json.dumps(o, ensure_ascii=is_plain, indent=None) for o in objects]
    else:
        names = [to_csv(name, pa.string()) for name in table.schema.names]
        lines = [",".join(names)]
        for row in table.rows:
            fields = [to_csv(v, f.type) for f, v in zip(table.schema, row, strict=True)]
            lines.append(",".join(fields))
    mark = b"\xef\xbb\xbf" if variant & 4 else b""
    path.write_bytes(mark + "".join(line + end for line in lines).encode())


def check_read(table: Table, format: str, variant: int) -> None:
    """What others have written is read as it is, whatever the policy and the size of batches."""
    expected = rows_of(table.rows, table.schema)
    with folder() as path:
        file = path / f"data.{format}"
        write_as_others(file, table, variant)
        for policy, batch_rows in (("fail", 3), ("fail", 8192), ("skip", 50), ("side", 8192)):
            source = Files(file, schema=table.schema, malformed=policy, batch_rows=batch_rows)
            assert arrow_rows(read(source, 7), table.schema) == expected, (policy, batch_rows)


def is_readable(table: Table, format: str) -> bool:
    """A row of one column that is null is an empty line of CSV, which is no row."""
    is_flat = all(f.type.num_fields == 0 and not pa.types.is_binary(f.type) for f in table.schema)
    has_lost = len(table.schema) == 1 and None in table.columns[0]
    return format != "csv" or (is_flat and not has_lost)


@pytest.mark.parametrize("format", FORMATS)
def test_every_listed_value_that_others_have_written_is_read_as_it_is(format: str) -> None:
    is_flat = [t.schema.field(0).type.num_fields == 0 for t in kinds.catalogue()]
    taken = [
        table
        for table, is_simple in zip(kinds.catalogue(), is_flat, strict=True)
        if format != "csv" or (is_simple and not pa.types.is_binary(table.schema.field(0).type))
    ]
    check_read(kinds.wide(taken), format, variant=3)


@pytest.mark.parametrize("format", FORMATS)
def test_drawn_rows_that_others_have_written_are_read_as_they_are(format: str) -> None:
    @settings(max_examples=kinds.examples(25))
    @given(drawn(format), st.integers(0, 11))
    def check(table: Table, variant: int) -> None:
        if is_readable(table, format):
            check_read(table, format, variant)

    check()

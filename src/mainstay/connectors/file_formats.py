"""File formats: the rows of one Parquet, CSV or JSON-lines file from a given row on.

Reading a file again from the same row gives the same rows: nothing here depends on anything but
the file and the arguments. Errors are those of pyarrow, of the operating system, or a
``SchemaError``; whoever reads knows the name of the file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from mainstay.connectors.file_records import (
    Parse,
    Record,
    Sifted,
    csv_records,
    joined,
    json_records,
    open_text,
    sifted_blocks,
)
from mainstay.connectors.text_times import timestamps_of
from mainstay.errors import SchemaError
from mainstay.schema import format_type
from mainstay.schema.arrays import check_not_null
from mainstay.schema.types import TIMESTAMP

EXTENSIONS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_CSV_BLOCK_BYTES = 4 << 20


def check_types(schema: pa.Schema, format: str, error: type[Exception]) -> None:
    """Refuse the types that a format cannot hold."""
    for field in schema:
        is_flat = field.type.num_fields == 0
        if (format == "csv" and not is_flat) or (format == "json" and pa.types.is_map(field.type)):
            raise error(
                f"column {field.name!r} is declared as {format_type(field.type)}, which cannot be "
                f"read from {format}. Use Parquet, or read a string and convert it with map()."
            )


def format_of(path: str) -> str | None:
    """The format that the extension of a file says, if it says one."""
    return EXTENSIONS.get(os.path.splitext(path.removesuffix(".gz"))[1].lower())


def read_batches(
    path: str, format: str, schema: pa.Schema, batch_rows: int, skip: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a file after the first ``skip``, as batches of the schema that are not empty."""
    for batch in READERS[format](path, schema, batch_rows, skip):
        if batch.num_rows:
            yield _fitted(batch, schema)


def _parquet(path: str, schema: pa.Schema, batch_rows: int, skip: int) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        _check_columns(schema, file.schema_arrow.names)
        groups = list(range(file.metadata.num_row_groups))
        while groups and skip >= file.metadata.row_group(groups[0]).num_rows:
            skip -= file.metadata.row_group(groups.pop(0)).num_rows
        batches = file.iter_batches(
            batch_rows, row_groups=groups, columns=schema.names, use_threads=False
        )
        yield from _after(skip, batches)


def _csv(path: str, schema: pa.Schema, batch_rows: int, skip: int) -> Iterator[pa.RecordBatch]:
    if os.path.getsize(path) == 0:
        return
    with pa.input_stream(path, compression="detect") as stream:
        batches = pa.csv.open_csv(stream, **_csv_options(schema, _CSV_BLOCK_BYTES))
        for batch in _after(skip, batches):
            yield from (batch.slice(n, batch_rows) for n in range(0, batch.num_rows, batch_rows))


def _csv_options(schema: pa.Schema, block_bytes: int) -> dict[str, Any]:
    return {
        "read_options": pa.csv.ReadOptions(use_threads=False, block_size=block_bytes),
        "parse_options": pa.csv.ParseOptions(newlines_in_values=True),
        "convert_options": pa.csv.ConvertOptions(
            column_types={field.name: _text_type(field.type) for field in schema},
            include_columns=schema.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


def _csv_rows(header: Record, block: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    data = joined([header, *block])
    return _only(pa.csv.read_csv(io.BytesIO(data), **_csv_options(schema, len(data) + 1)))


def _json(path: str, schema: pa.Schema, batch_rows: int, skip: int) -> Iterator[pa.RecordBatch]:
    with open_text(path) as file:
        records = islice(json_records(file), skip, None)
        while block := list(islice(records, batch_rows)):
            yield _json_rows(block, schema)


def _json_rows(block: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    data = joined(block)
    fields = [pa.field(field.name, _text_type(field.type)) for field in schema]
    table = pa.json.read_json(
        io.BytesIO(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(block):
        raise SchemaError("a line must hold one object")
    return _only(table)


def _only(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], table.schema)
    return table.combine_chunks().to_batches()[0]


def sifted(
    path: str, format: str, schema: pa.Schema, batch_rows: int, skip: int
) -> Iterator[Sifted]:
    """The records of a CSV or JSON file after the first ``skip``, good and bad ones apart."""
    nothing = pa.RecordBatch.from_pylist([], schema)
    with open_text(path) as file:
        if format == "csv":
            records = csv_records(file)
            header = next(records, None)
            if header is None:
                return
            names = pa.csv.read_csv(io.BytesIO(header.raw)).column_names
            _check_columns(schema, names)
            rows: Parse = partial(_csv_rows, header, schema=schema)
        else:
            records, rows = json_records(file), partial(_json_rows, schema=schema)
        rest = islice(records, skip, None)
        yield from sifted_blocks(
            path, rest, lambda b: _fitted(rows(b), schema), nothing, batch_rows
        )


READERS: dict[str, Callable[[str, pa.Schema, int, int], Iterator[pa.RecordBatch]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}


def _after(skip: int, batches: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        skipped = min(skip, batch.num_rows)
        skip -= skipped
        yield batch.slice(skipped)


def _check_columns(schema: pa.Schema, names: list[str]) -> None:
    missing = [repr(name) for name in schema.names if name not in names]
    if missing:
        raise SchemaError(f"there is no column {', '.join(missing)}; it has {', '.join(names)}")


def _text_type(data_type: pa.DataType) -> pa.DataType:
    """What a column is parsed as: pyarrow's own parsers are particular about dates and zones."""
    is_time = pa.types.is_timestamp(data_type) or pa.types.is_date(data_type)
    return pa.string() if is_time else data_type


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        column = _cast(batch.column(field.name), field)
        check_not_null(column, field, f"column {field.name!r}")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        if pa.types.is_string(column.type) and field.type == TIMESTAMP:
            return timestamps_of(column)
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} of type {column.type} is no {format_type(field.type)}: {error}"
        ) from error

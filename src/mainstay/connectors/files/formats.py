"""File formats: the rows of one Parquet, CSV or JSON-lines file from a given row on.

Reading a file again from the same row gives the same rows: nothing here depends on anything but
the file and the arguments. Errors are those of pyarrow, of the operating system, or a
``SchemaError``; the caller knows the name of the file.
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
import pyarrow.parquet as pq

from mainstay.connectors.files.part_names import attempt_of
from mainstay.connectors.files.records import (
    Parse,
    Record,
    Sifted,
    csv_records,
    joined,
    json_records,
    open_text,
    sifted_blocks,
)
from mainstay.connectors.formats import json_reading
from mainstay.connectors.formats.soundness import check_sound, check_values
from mainstay.connectors.formats.text_numbers import floats_of, integers_of
from mainstay.connectors.formats.text_times import timestamps_of
from mainstay.errors import SchemaError
from mainstay.schema import format_type
from mainstay.schema.arrays import check_not_null
from mainstay.schema.types import TIMESTAMP
from mainstay.spelling import one_of

EXTENSIONS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_CSV_BLOCK_BYTES = 4 << 20
_LARGEST_CSV_BLOCK_BYTES = 1 << 30
_HEADER = ". The first line of a CSV file must name its columns, with commas between them"


def check_types(
    schema: pa.Schema, format: str, error: type[Exception], *, to_write: bool = False
) -> None:
    """Refuse the types that a format cannot hold. CSV can be read as bytes, but not any bytes can
    be written."""
    for field in schema:
        is_bytes = pa.types.is_binary(field.type)
        if not _can_hold(format, field.type) or (to_write and format == "csv" and is_bytes):
            raise error(
                f"column {field.name!r} is of type {format_type(field.type)}, which {format} has "
                "no spelling for. Use Parquet, or a string that map() makes of it or reads from it."
            )


def _can_hold(format: str, data_type: pa.DataType) -> bool:
    if format == "csv":
        return data_type.num_fields == 0  # type: ignore[no-any-return]
    if format == "json" and pa.types.is_map(data_type) and data_type.key_type.num_fields:
        return False  # a key of an object is a text
    inner = (data_type.field(number).type for number in range(data_type.num_fields))
    return all(_can_hold(format, each) for each in inner)


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
        for batch in _after(skip, batches):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                check_sound(column, name)
            yield batch


def _csv(path: str, schema: pa.Schema, batch_rows: int, skip: int) -> Iterator[pa.RecordBatch]:
    keep_empty = _has_null_lines(path)
    with open_text(path) as file:
        beginning = list(islice(csv_records(file, keep_empty=keep_empty), 2))
    for header in beginning[:1]:
        _check_columns(schema, _names(header), _HEADER)
    if len(beginning) < 2:
        # Arrow takes a file without rows for damaged, unless its header ends in a line end.
        return
    block_bytes = _CSV_BLOCK_BYTES
    while True:
        try:
            for batch in _csv_blocks(path, schema, skip, block_bytes, keep_empty):
                for first in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(first, batch_rows)
                skip += batch.num_rows
            return
        except pa.ArrowInvalid as error:
            # A record must not be longer than a block, and nobody knows before how long it is.
            if "straddl" not in str(error) or block_bytes >= _LARGEST_CSV_BLOCK_BYTES:
                raise
            block_bytes *= 8


def _csv_blocks(
    path: str, schema: pa.Schema, skip: int, block_bytes: int, keep_empty: bool
) -> Iterator[pa.RecordBatch]:
    with pa.input_stream(path, compression="detect") as stream:
        options = _csv_options(schema, block_bytes, keep_empty)
        yield from _after(skip, pa.csv.open_csv(stream, **options))


def _has_null_lines(path: str) -> bool:
    """Whether an empty line is a row: where a sink wrote a file of one column, it is a null.

    In files of others it is no more than an empty line.
    """
    if attempt_of(os.path.basename(path)) is None:
        return False
    with open_text(path) as file:
        header = next(csv_records(file), None)
    return header is not None and len(_names(header)) == 1


def _names(header: Record) -> list[str]:
    # A header that is the last line may have no end of line, without which Arrow sees none.
    whole = io.BytesIO(header.raw + b"\n")
    try:
        return pa.csv.read_csv(whole).column_names  # type: ignore[no-any-return]
    except UnicodeDecodeError as error:
        raise SchemaError(
            f"the header in line {header.line} is not UTF-8. Convert the file, as in "
            "iconv -f LATIN1 -t UTF-8"
        ) from error


def _csv_options(schema: pa.Schema, block_bytes: int, keep_empty: bool) -> dict[str, Any]:
    return {
        "read_options": pa.csv.ReadOptions(use_threads=False, block_size=block_bytes),
        "parse_options": pa.csv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=not keep_empty
        ),
        "convert_options": pa.csv.ConvertOptions(
            column_types={field.name: _text_type(field.type) for field in schema},
            include_columns=schema.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


def _csv_rows(
    header: Record, keep_empty: bool, block: Sequence[Record], schema: pa.Schema
) -> pa.RecordBatch:
    data = joined([header, *block])
    options = _csv_options(schema, len(data) + 1, keep_empty)
    return _only(pa.csv.read_csv(io.BytesIO(data), **options))


def _json(path: str, schema: pa.Schema, batch_rows: int, skip: int) -> Iterator[pa.RecordBatch]:
    with open_text(path) as file:
        records = islice(json_records(file), skip, None)
        while block := list(islice(records, batch_rows)):
            yield _json_rows(block, schema)


def _json_rows(block: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    return json_reading.parse([record.raw for record in block], schema)


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
            keep_empty = _has_null_lines(path)
            records = csv_records(file, keep_empty=keep_empty)
            header = next(records, None)
            if header is None:
                return
            _check_columns(schema, _names(header), _HEADER)
            rows: Parse = partial(_csv_rows, header, keep_empty, schema=schema)
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


def _check_columns(schema: pa.Schema, names: list[str], hint: str = "") -> None:
    missing = [repr(name) for name in schema.names if name not in names]
    if missing:
        found = one_of(names)
        raise SchemaError(f"there is no column {', '.join(missing)}; it has {found}{hint}")
    if twice := [repr(name) for name in schema.names if names.count(name) > 1]:
        raise SchemaError(
            f"it has the column {', '.join(twice)} more than once, and which is meant cannot be "
            "known. Give each column of the header a name of its own"
        )


def _text_type(data_type: pa.DataType) -> pa.DataType:
    """What a column is parsed as: pyarrow's own parsers are particular about dates and zones, and
    take hexadecimal digits for a whole number, and ``1e400`` for infinity."""
    is_time = pa.types.is_timestamp(data_type) or pa.types.is_date(data_type)
    is_number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type)
    return pa.string() if is_time or is_number else data_type


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        column = _cast(batch.column(field.name), field)
        check_values(column, field.name)
        check_not_null(column, field, f"column {field.name!r}")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        if pa.types.is_string(column.type) and field.type == TIMESTAMP:
            return timestamps_of(column)
        if pa.types.is_string(column.type) and pa.types.is_integer(field.type):
            return integers_of(column, field.type)
        if pa.types.is_string(column.type) and pa.types.is_floating(field.type):
            return floats_of(column, field.type)
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} of type {column.type} is no {format_type(field.type)}: {error}"
        ) from error

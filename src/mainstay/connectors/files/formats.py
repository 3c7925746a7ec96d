"""File formats: the rows of one Parquet, CSV or JSON-lines file from a given row on.

Reading a file again from the same row gives the same rows: nothing here depends on anything but
the file and the arguments. Errors are those of pyarrow, of the operating system, or a
``SchemaError``; the caller knows the name of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors.files.columns import check_columns, fitted
from mainstay.connectors.files.csv_reading import csv_blocks
from mainstay.connectors.files.records import Record, open_text
from mainstay.connectors.files.sifting import Sifted, sifted
from mainstay.connectors.files.text_blocks import JsonLines, after, blocks_of
from mainstay.connectors.formats import json_reading
from mainstay.connectors.formats.soundness import check_sound
from mainstay.errors import SchemaError
from mainstay.schema import format_type

EXTENSIONS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_PARQUET_BYTES = 4 << 20
_LEAST_PARQUET_ROWS, _MOST_PARQUET_ROWS = 1024, 65_536


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


def read_batches(path: str, format: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows of a file, of which every record has to be good, as batches that are not empty."""
    for block in read_blocks(path, format, schema, 0):
        if block.bad:
            record = block.bad[min(block.bad)]
            raise SchemaError(f"the record at {record.position} does not fit: {record.error}")
        if block.records:
            yield block.good


def read_blocks(path: str, format: str, schema: pa.Schema, skip: int) -> Iterator[Sifted]:
    """The records of a file after the first ``skip``, good and bad ones apart."""
    return READERS[format](path, schema, skip)


def _parquet(path: str, schema: pa.Schema, skip: int) -> Iterator[Sifted]:
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        check_columns(schema, file.schema_arrow.names)
        groups = list(range(file.metadata.num_row_groups))
        while groups and skip >= file.metadata.row_group(groups[0]).num_rows:
            skip -= file.metadata.row_group(groups.pop(0)).num_rows
        batches = file.iter_batches(
            _rows_at_once(file.metadata),
            row_groups=groups,
            columns=schema.names,
            use_threads=False,
        )
        for batch in _after(skip, batches):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                check_sound(column, name)
            yield Sifted(fitted(batch, schema), {}, batch.num_rows)


def _rows_at_once(metadata: Any) -> int:
    """About as many rows as take some megabytes. Less is dear, more only needs memory."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    size_bytes = sum(group.total_byte_size for group in groups)
    fitting = _PARQUET_BYTES * rows // max(1, size_bytes)
    return int(max(_LEAST_PARQUET_ROWS, min(fitting, _MOST_PARQUET_ROWS)))


def _after(skip: int, batches: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        skipped = min(skip, batch.num_rows)
        skip -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)


def _csv(path: str, schema: pa.Schema, skip: int) -> Iterator[Sifted]:
    with open_text(path) as file:
        found = csv_blocks(path, file, schema)
        if found is None:
            return
        blocks, layout, parser = found
        for block in after(blocks, layout, skip):
            yield sifted(path, block, layout, parser, schema)


@dataclass(frozen=True, slots=True)
class _JsonParser:
    schema: pa.Schema

    def whole(self, data: bytes, records: int) -> pa.RecordBatch:
        return json_reading.parse_lines(data, records, self.schema)

    def each(self, records: Sequence[Record]) -> pa.RecordBatch:
        return json_reading.parse([record.raw for record in records], self.schema)


def _json(path: str, schema: pa.Schema, skip: int) -> Iterator[Sifted]:
    layout, parser = JsonLines(), _JsonParser(schema)
    with open_text(path) as file:
        for block in after(blocks_of(file, layout), layout, skip):
            yield sifted(path, block, layout, parser, schema)


READERS: dict[str, Callable[[str, pa.Schema, int], Iterator[Sifted]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}

"""The data files of an ingest log: Arrow streams of a few megabytes, compressed and checked.

A writer cuts the rows of one task into files; a reader holds one file, compressed, and
decodes a batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from mainstay.connectors.ingest.log import DataFile
from mainstay.errors import SchemaError
from mainstay.runtime.watermarks import newest_in
from mainstay.schema import format_type
from mainstay.schema.arrays import check_not_null
from mainstay.schema.ipc import to_ipc
from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.storage import Storage

FILE_BYTES = 4 << 20
"""How many bytes of rows, before compression, go into a file."""


def write_files(
    storage: Storage,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path_of: Callable[[int], str],
    file_bytes: int = FILE_BYTES,
    time_column: int | None = None,
) -> list[DataFile]:
    """Write rows to files and say which; ``path_of`` names the first, the second, and so on.

    A file is durable when this returns. No rows give no file. Where ``time_column`` names the
    column of event time, a file says how far it has come in its rows.
    """
    written: list[DataFile] = []
    for group in _grouped(batches, file_bytes):
        rows = [fitted(batch, schema) for batch in group]
        data = to_ipc(rows, schema, compression="lz4")
        path = path_of(len(written))
        storage.write(path, data)
        place = reference(path, data)
        count = sum(batch.num_rows for batch in rows)
        newest_us = None if time_column is None else _newest(rows, time_column)
        written.append(DataFile(path, count, place.size_bytes, place.checksum, newest_us))
    return written


def read_file(storage: Storage, file: DataFile, skip: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file after the first ``skip``, as batches that are not empty."""
    for batch in pa.ipc.open_stream(pa.py_buffer(read_checked(storage, file.place))):
        skipped = min(skip, batch.num_rows)
        skip -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch as Spark gives it, with the types that are kept of it."""
    columns = []
    for number, field in enumerate(schema):
        column = batch.column(number)
        try:
            column = column if column.type == field.type else column.cast(field.type)
        except pa.ArrowException as error:
            raise SchemaError(
                f"column {field.name!r} of type {column.type} is no {format_type(field.type)}: "
                f"{error}"
            ) from error
        check_not_null(column, field, f"column {field.name!r}")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _newest(batches: Iterable[pa.RecordBatch], column: int) -> int | None:
    times = [newest_in(batch, column) for batch in batches]
    return max((time for time in times if time is not None), default=None)


def _grouped(batches: Iterable[pa.RecordBatch], file_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        group.append(batch)
        size += batch.nbytes
        if size >= file_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group

"""The files that one subtask writes for a Delta table.

They lie flat in the table's folder, under names that carry the attempt and a random word; which
partition a file is of is said in the table's log alone. Rows are gathered on the worker's loop;
encoding and storing are deferred, each file in one piece, so that it can be stored again.
"""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstay.connectors.delta.files import (
    DataFile,
    Handle,
    check_can_be_made,
    check_fits,
    open_table,
    open_table_storage,
)
from mainstay.connectors.files.hive_partitions import HivePartitions, values_of
from mainstay.connectors.formats.soundness import UNWRITABLE
from mainstay.errors import SinkError, named
from mainstay.runtime.connector import SinkContext, SinkWriter
from mainstay.snapshot.storage import Storage

GATHERED_BYTES = 64 << 20
"""Rows that are gathered; beyond it the partition with most of them gets a file."""
LONGEST_BOUND = 32
"""Letters of a text that is noted as the least or the greatest of a column."""


class DeltaWriter(SinkWriter):
    """Rows are gathered by partition and written when there are many, or the epoch ends."""

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str],
        partition_by: tuple[str, ...],
        app_id: str,
        context: SinkContext,
    ) -> None:
        self._uri = uri
        self._options = options
        self._partition_by = partition_by
        self._app_id = app_id
        self._partitions = HivePartitions(partition_by)
        self._stem = f"part-a{context.attempt:04}-s{context.subtask:04}"
        self._word = uuid.uuid4().hex
        self._number = 0
        self._gathered: dict[str, list[pa.RecordBatch]] = {}
        self._sizes: dict[str, int] = {}
        self._files: list[_File] = []
        self._schema: pa.Schema | None = None
        self._storage: Storage | None = None

    # ------------------------------------------------------------ on the loop

    def write(self, batch: pa.RecordBatch) -> Callable[[], None] | None:
        self._schema = batch.schema
        for folder, rows in self._partitions.split(batch):
            if rows.num_rows:
                self._gathered.setdefault(folder, []).append(rows)
                self._sizes[folder] = self._sizes.get(folder, 0) + rows.nbytes
        full = list(self._roll())
        return (lambda: self._store(full)) if full else None

    def _roll(self) -> Iterator[_File]:
        while sum(self._sizes.values()) > GATHERED_BYTES:
            yield self._end(max(self._sizes, key=lambda folder: self._sizes[folder]))

    def _end(self, folder: str) -> _File:
        self._number += 1
        del self._sizes[folder]
        name = f"{self._stem}-{self._number:05}-{self._word}.parquet"
        file = _File(name, folder, self._gathered.pop(folder))
        self._files.append(file)
        return file

    def prepare(self, epoch: int) -> Callable[[], bytes] | None:
        for folder in list(self._gathered):
            self._end(folder)
        files, self._files = self._files, []
        schema = self._schema
        return (lambda: self._handle(epoch, schema, files)) if files else None

    # ------------------------------------------------------------ in the background

    def _store(self, files: Sequence[_File]) -> None:
        if self._storage is None:
            self._check_table()
            self._storage = open_table_storage(self._uri, self._options)
        for file in files:
            file.store(self._storage)

    def _check_table(self) -> None:
        """Rows that the table would refuse are refused before an epoch holds them."""
        table = open_table(self._uri, self._options)
        assert self._schema is not None
        if table is None:
            check_can_be_made(self._uri, self._schema, self._partition_by)
        else:
            check_fits(table, self._uri, self._schema, self._partition_by)

    def _handle(self, epoch: int, schema: pa.Schema, files: Sequence[_File]) -> bytes:
        self._store(files)
        stored = tuple(file.stored for file in files if file.stored is not None)
        handle = Handle(self._uri, self._app_id, epoch, schema, self._partition_by, stored)
        return handle.to_bytes()


class _File:
    """Rows of one partition that go into one file."""

    def __init__(self, name: str, folder: str, batches: list[pa.RecordBatch]) -> None:
        self._name = name
        self._folder = folder
        self._batches = batches
        self.stored: DataFile | None = None

    def store(self, storage: Storage) -> None:
        """Write the file; where that failed before, all of it again."""
        if self.stored is not None:
            return
        table = pa.Table.from_batches(self._batches)
        data, stats = _encoded(table, self._name)
        storage.write(self._name, data)
        modified_ms = int(time.time() * 1000)
        partition = values_of(self._folder)
        self.stored = DataFile(self._name, len(data), modified_ms, partition, stats)
        self._batches = []


def _encoded(table: pa.Table, name: str) -> tuple[memoryview, str]:
    """The bytes of a file, and its statistics."""
    buffer = io.BytesIO()
    try:
        pq.write_table(table, buffer, compression="zstd")
        stats = _stats(table)
    except UNWRITABLE as error:
        raise SinkError(
            f"rows cannot be written to {name!r}: {named(error)}. Give the sink a "
            "schema that Parquet has types for."
        ) from error
    return buffer.getbuffer(), stats


def _stats(table: pa.Table) -> str:
    """What readers may know of a file without opening it: enough to pass over most of them."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        bounds = _bounds(column)
        if bounds is not None:
            least[name], greatest[name] = bounds
    nulls = {name: table.column(name).null_count for name in table.schema.names}
    stats = {"numRecords": table.num_rows, "minValues": least, "maxValues": greatest}
    flat = {n: count for n, count in nulls.items() if not table.schema.field(n).type.num_fields}
    return json.dumps({**stats, "nullCount": flat})


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column of numbers, days or short texts."""
    type, is_day = column.type, pa.types.is_date(column.type)
    if not (pa.types.is_integer(type) or pa.types.is_string(type) or is_day):
        return None
    found = pc.min_max(column).as_py()
    least, greatest = found["min"], found["max"]
    if least is None or (
        isinstance(least, str) and len(max(least, greatest, key=len)) > LONGEST_BOUND
    ):
        return None
    return (least.isoformat(), greatest.isoformat()) if is_day else (least, greatest)

"""Rows in memory, as a source and as a sink: for tests and small experiments.

The rows of a ``Memory`` sink travel in its handles, and so through every snapshot until they are
committed in the process of the job's author: it is for tests and for small results.
"""

from __future__ import annotations

import itertools
import json
import threading
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mainstay.connectors.bases.row_handles import read_row_handle, write_row_handle
from mainstay.errors import RestoreError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import (
    Json,
    Polled,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    SplitReader,
)
from mainstay.schema import batch_to_rows, row_class, rows_to_batch, to_schema
from mainstay.schema.ipc import from_ipc, ipc_schema
from mainstay.spelling import counted

CHECKED_ROWS = 8192
FORMAT = 1

_METADATA = b"mainstay.memory"
_UNVERSIONED = b"mainstay"
"""What the first handles noted in its place; snapshots may hold some."""

_numbers = itertools.count(1)
_committed: dict[int, dict[str, pa.Table]] = {}
_lock = threading.Lock()


@made_with_own_frames
class Rows(Source):
    """Given rows, distributed over a number of splits in contiguous runs.

    A job that has finished and is started again reads the rows that were added at the end; the
    rows before them have to be what they were.
    """

    new_input = "rows added at the end of those given to Rows"

    def __init__(
        self, schema: Any, rows: Sequence[Any], *, splits: int = 1, batch_rows: int | None = None
    ) -> None:
        self.schema = to_schema(schema)
        self.batch = rows_to_batch(list(rows), self.schema, "the rows of a source")
        self.splits = splits
        self.batch_rows = batch_rows

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        known = sorted(tuple(map(int, id.split("-")[1:])) for id in seen)
        first, total = max((end for _, end in known), default=0), self.batch.num_rows
        if total < first:
            raise RestoreError(
                f"Rows(...) was given {counted(total, 'row')}, and {first:,} were read before. "
                "Give it those rows again, and new ones after them, or start the job afresh in "
                "another snapshot directory."
            )
        count, new = self.splits, total - first
        bounds = [(first + n * new // count, first + (n + 1) * new // count) for n in range(count)]
        if seen and not new:
            bounds = []
        return [self._split(start, end) for start, end in [*known, *bounds]]

    def _split(self, start: int, end: int) -> Split:
        checksum = 0
        for first in range(start, end, CHECKED_ROWS):
            rows = self.batch.slice(first, min(CHECKED_ROWS, end - first)).to_pylist()
            checksum = zlib.crc32(repr(rows).encode(), checksum)
        return Split(f"rows-{start}-{end}", [start, end], f"rows with the checksum {checksum:08x}")

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        start, end = split.data
        return _RowsReader(self.batch, start if offset is None else offset, end, self.batch_rows)


class _RowsReader(SplitReader):
    def __init__(self, batch: pa.RecordBatch, position: int, end: int, most: int | None) -> None:
        self._batch = batch
        self._position = position
        self._end = end
        self._most = most

    def poll(self, max_rows: int) -> Polled:
        rows = min(max_rows, self._most or max_rows, self._end - self._position)
        taken = self._batch.slice(self._position, rows)
        self._position += rows
        return Polled(taken, self._position, finished=self._position >= self._end)


@made_with_own_frames
class Memory(Sink):
    """Keeps committed rows; ``rows()`` gives them as tuples, in the order of their commits."""

    is_global = True

    def __init__(self) -> None:
        self.number = next(_numbers)
        _committed[self.number] = {}

    def open(self, context: SinkContext) -> SinkWriter:
        return _MemoryWriter(context)

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        self.commit(handles)

    def commit(self, handles: Sequence[bytes]) -> None:
        with _lock:
            committed = _committed.setdefault(self.number, {})
            for handle in handles:
                name, table = _opened(handle)
                # The name makes a second commit of the same handle do nothing.
                committed.setdefault(name, table)

    def rows(self) -> list[tuple[Any, ...]]:
        with _lock:
            tables = list(_committed[self.number].values())
        return [
            tuple(row)
            for table in tables
            for batch in table.to_batches()
            for row in batch_to_rows(batch, row_class(batch.schema))
        ]


class _MemoryWriter(SinkWriter):
    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def prepare(self, epoch: int) -> bytes | None:
        batches, self._batches = self._batches, []
        if not batches:
            return None
        context = self._context
        about = [context.lineage, context.uid, context.attempt, context.subtask, epoch]
        return write_row_handle(_METADATA, FORMAT, about, pa.Table.from_batches(batches))


def _opened(handle: bytes) -> tuple[str, pa.Table]:
    """The name of a handle, and its rows."""
    if (name := (ipc_schema(handle).metadata or {}).get(_UNVERSIONED)) is not None:
        return name.decode(), from_ipc(handle)
    about, rows = read_row_handle(handle, _METADATA, FORMAT, "memory")
    return json.dumps(about), rows

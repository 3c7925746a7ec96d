"""Part files: what one subtask of a Parquet sink writes, and the handle that names it.

A part is called ``part-a0003-s0001-00007-5d1f09c2.parquet``: the attempt and subtask that wrote
it, a number, and a random word that keeps apart jobs with histories of their own. While it is
being written its name begins with a dot, which readers of directories pass over; it gets its own
name when it is whole and on disk.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.errors import SinkError
from mainstay.runtime.connector import SinkContext, SinkWriter

HANDLE_VERSION = 1
ROW_GROUP_ROWS = 1 << 16
ROW_GROUP_BYTES = 16 << 20

_PART = re.compile(r"\.?part-a(\d{4,})-s\d{4,}-\d{5,}-[0-9a-f]{8}\.parquet")


def attempt_of(name: str) -> int | None:
    """The attempt that wrote a part, whole or not; None where the name is not that of a part."""
    match = _PART.fullmatch(name)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class Part:
    """A part that is whole and on disk."""

    name: str
    size_bytes: int
    rows: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Handle:
    """The parts of one subtask in one epoch, and the directory they are in."""

    directory: str
    parts: tuple[Part, ...]

    def to_bytes(self) -> bytes:
        parts = [asdict(part) for part in self.parts]
        content = {"version": HANDLE_VERSION, "directory": self.directory, "parts": parts}
        return json.dumps(content).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Handle:
        content = json.loads(data)
        if content["version"] != HANDLE_VERSION:
            raise SinkError(
                f"a Parquet sink's handle has version {content['version']}; this Mainstay knows "
                f"version {HANDLE_VERSION}. Use the Mainstay that wrote it, or a newer one."
            )
        return Handle(content["directory"], tuple(Part(**part) for part in content["parts"]))


class PartWriter(SinkWriter):
    """Rows are gathered into row groups, row groups into parts of at most ``rows_per_file``."""

    def __init__(
        self, directory: str, context: SinkContext, rows_per_file: int, compression: str
    ) -> None:
        self._directory = directory
        self._context = context
        self._rows_per_file = rows_per_file
        self._compression = compression
        self._word = uuid.uuid4().hex[:8]
        self._number = 0
        self._parts: list[Part] = []
        self._open: _OpenPart | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            part = self._open = self._open or self._next(batch.schema)
            room = self._rows_per_file - part.rows
            part.take(batch.slice(0, room))
            batch = batch.slice(room)
            if part.rows >= self._rows_per_file:
                self._finish()

    def prepare(self, epoch: int) -> bytes | None:
        self._finish()
        parts, self._parts = tuple(self._parts), []
        if not parts:
            return None
        _flush_to_disk(self._directory)  # the names: the contents are on disk already
        return Handle(self._directory, parts).to_bytes()

    def close(self) -> None:
        part, self._open = self._open, None
        if part is not None:
            part.discard()

    def _next(self, schema: pa.Schema) -> _OpenPart:
        self._number += 1
        attempt, subtask = self._context.attempt, self._context.subtask
        name = f"part-a{attempt:04}-s{subtask:04}-{self._number:05}-{self._word}.parquet"
        return _OpenPart(self._directory, name, schema, self._compression)

    def _finish(self) -> None:
        part, self._open = self._open, None
        if part is not None:
            self._parts.append(part.finish())


class _OpenPart:
    """A part that is being written."""

    def __init__(self, directory: str, name: str, schema: pa.Schema, compression: str) -> None:
        self._name = name
        self._path = os.path.join(directory, name)
        self._hidden = os.path.join(directory, f".{name}")
        self._file = pa.OSFile(self._hidden, "wb")
        self._writer = pq.ParquetWriter(self._file, schema, compression=compression)
        self._group: list[pa.RecordBatch] = []
        self._group_rows = 0
        self._group_bytes = 0
        self.rows = 0

    def take(self, batch: pa.RecordBatch) -> None:
        self._group.append(batch)
        self._group_rows += batch.num_rows
        self._group_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._group_rows >= ROW_GROUP_ROWS or self._group_bytes >= ROW_GROUP_BYTES:
            self._end_group()

    def finish(self) -> Part:
        if self._group:
            self._end_group()
        self._writer.close()
        self._file.close()
        _flush_to_disk(self._hidden)
        os.rename(self._hidden, self._path)
        status = os.stat(self._path)
        return Part(self._name, status.st_size, self.rows, status.st_mtime_ns // 1_000_000)

    def discard(self) -> None:
        """Leave nothing behind: no handle will ever name it."""
        try:
            self._writer.close()
        finally:
            self._file.close()
            os.remove(self._hidden)

    def _end_group(self) -> None:
        table = pa.Table.from_batches(self._group)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._group, self._group_rows, self._group_bytes = [], 0, 0


def _flush_to_disk(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

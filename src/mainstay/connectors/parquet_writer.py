"""Part files: what one subtask of a Parquet sink writes, and the handle that names it.

A part is called ``part-a0003-s0001-00007-5d1f09c2.parquet``: the attempt and subtask that wrote
it, a number, and a random word that keeps apart jobs with histories of their own. While it is
being written its name begins with a dot, which readers of directories pass over; it gets its own
name when it is whole and on disk.

Rows are gathered on the worker's loop; encoding, compressing, writing and flushing are put off to
run beside it. They are encoded in memory first, so that what a full or absent disk has refused
can be written again later.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
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
        self._open: _OpenPart | None = None
        self._parts: list[_OpenPart] = []
        self._unfinished: list[_OpenPart] = []
        self._working = threading.Lock()
        self._is_closed = False

    # ------------------------------------------------------------ on the loop

    def write(self, batch: pa.RecordBatch) -> Callable[[], None] | None:
        steps = deque(self._steps(batch))
        return (lambda: self._do(steps)) if steps else None

    def _steps(self, batch: pa.RecordBatch) -> Iterator[Callable[[], None]]:
        while batch.num_rows:
            part = self._open = self._open or self._next(batch.schema)
            room = self._rows_per_file - part.rows
            part.take(batch.slice(0, room))
            batch = batch.slice(room)
            if part.rows >= self._rows_per_file:
                yield from self._end_part()
            elif part.group_is_full:
                yield part.end_group()

    def prepare(self, epoch: int) -> Callable[[], bytes] | None:
        steps = deque(self._end_part())
        parts, self._parts = self._parts, []
        return (lambda: self._handle(steps, parts)) if parts else None

    def _next(self, schema: pa.Schema) -> _OpenPart:
        self._number += 1
        attempt, subtask = self._context.attempt, self._context.subtask
        name = f"part-a{attempt:04}-s{subtask:04}-{self._number:05}-{self._word}.parquet"
        part = _OpenPart(self._directory, name, schema, self._compression)
        self._parts.append(part)
        self._unfinished.append(part)
        return part

    def _end_part(self) -> Iterator[Callable[[], None]]:
        part, self._open = self._open, None
        if part is not None:
            yield part.end_group()
            yield lambda: self._finish(part)

    def close(self) -> None:
        self._is_closed = True
        self._discard_if_idle()

    # ------------------------------------------------------------ beside the loop

    def _do(self, steps: deque[Callable[[], None]]) -> None:
        """Take the steps that are left: one that raises is the first when this is called again."""
        with self._working:
            while steps and not self._is_closed:
                steps[0]()
                steps.popleft()
        if self._is_closed:
            self._discard_if_idle()

    def _finish(self, part: _OpenPart) -> None:
        part.finish()
        self._unfinished.remove(part)

    def _handle(self, steps: deque[Callable[[], None]], parts: list[_OpenPart]) -> bytes:
        self._do(steps)
        _flush_to_disk(self._directory)  # the names: the contents are on disk already
        whole = tuple(part.whole for part in parts if part.whole is not None)
        return Handle(self._directory, whole).to_bytes()

    def _discard_if_idle(self) -> None:
        """Remove what no handle will ever name; work under way does it at its end."""
        if not self._working.acquire(blocking=False):
            return
        try:
            while self._unfinished:
                self._unfinished.pop().discard()
        finally:
            self._working.release()


class _OpenPart:
    """A part that is being written: ``take`` and ``end_group`` on the loop, the rest beside it."""

    def __init__(self, directory: str, name: str, schema: pa.Schema, compression: str) -> None:
        self._name = name
        self._path = os.path.join(directory, name)
        self._hidden = os.path.join(directory, f".{name}")
        self._encoded = io.BytesIO()
        self._schema = schema
        self._compression = compression
        self._encoder: pq.ParquetWriter | None = None
        self._descriptor: int | None = None
        self._stored_bytes = 0
        self._is_encoded = False
        self._group: list[pa.RecordBatch] = []
        self._group_rows = 0
        self._group_bytes = 0
        self.rows = 0
        self.whole: Part | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        self._group.append(batch)
        self._group_rows += batch.num_rows
        self._group_bytes += batch.nbytes
        self.rows += batch.num_rows

    @property
    def group_is_full(self) -> bool:
        return self._group_rows >= ROW_GROUP_ROWS or self._group_bytes >= ROW_GROUP_BYTES

    def end_group(self) -> Callable[[], None]:
        """What is left to do with the rows gathered so far; it can be called until it is done."""
        group = self._group
        self._group, self._group_rows, self._group_bytes = [], 0, 0
        return lambda: self._write(group)

    def _write(self, group: list[pa.RecordBatch]) -> None:
        if group:
            table = pa.Table.from_batches(group)
            self._encode(lambda to: to.write_table(table, row_group_size=table.num_rows))
            group.clear()  # from here on only storing it can be left
        self._store()

    def finish(self) -> None:
        """Write the end of it, make all of it durable, and give it its name."""
        if not self._is_encoded:
            self._encode(lambda to: to.close())
            self._is_encoded = True
        if self.whole is None:
            self._store()
            self.whole = self._flush()
        if os.path.exists(self._hidden) or not os.path.exists(self._path):
            os.rename(self._hidden, self._path)

    def _encode(self, encode: Callable[[pq.ParquetWriter], None]) -> None:
        try:
            if self._encoder is None:
                self._encoder = pq.ParquetWriter(
                    self._encoded, self._schema, compression=self._compression
                )
            encode(self._encoder)
        except pa.ArrowException as error:
            raise SinkError(
                f"rows cannot be written to {self._path!r}: {type(error).__name__}: {error}. Give "
                "the sink a schema that Parquet has types for."
            ) from error

    def _store(self) -> None:
        """Write what is encoded; after a failure, all of it again in the same place."""
        if self._descriptor is None:
            self._descriptor = os.open(self._hidden, os.O_WRONLY | os.O_CREAT, 0o666)
        os.lseek(self._descriptor, self._stored_bytes, os.SEEK_SET)
        data = memoryview(self._encoded.getvalue())
        written = 0
        while written < len(data):
            written += os.write(self._descriptor, data[written:])
        self._stored_bytes += written
        self._encoded.seek(0)
        self._encoded.truncate()

    def _flush(self) -> Part:
        descriptor, self._descriptor = self._descriptor, None
        assert descriptor is not None
        try:
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        except OSError as error:
            # The system may have forgotten what it could not write: nothing can be relied on.
            raise SinkError(
                f"{self._path!r} could not be made durable: {error}. Its rows are written again "
                "from the last snapshot; see to the disk."
            ) from error
        finally:
            os.close(descriptor)
        return Part(self._name, status.st_size, self.rows, status.st_mtime_ns // 1_000_000)

    def discard(self) -> None:
        """Leave nothing behind: no handle will ever name it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._hidden)


def _flush_to_disk(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

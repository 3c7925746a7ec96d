"""The rows inside a loop: those that go back to its head.

Rows that come back wait in a queue that takes any number of them: the tail is never held up, or the
loop would wait for itself. What does not fit into memory is stored in the job's
storage and read again when its turn comes; meanwhile the head takes nothing new.

A cut through a loop goes through its in-flight rows. The *log* of an epoch holds them: what is
in the queue when the head passes the marker on, and what comes back until the marker does. Several
logs may be open at once. What is stored already is in a log by reference. A restored log is the
beginning of the queue: it is replayed before anything else enters the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.runtime import feedback_log
from mainstay.runtime.deferred import Late
from mainstay.runtime.feedback_log import Entry, Log, bytes_of, rows_of, units_of, without
from mainstay.runtime.messages import Epoch
from mainstay.runtime.ports import Background, Clock
from mainstay.schema import format_schema, sizes
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.operator_files import OperatorFiles

RETRY_S = 1.0
"""How long a chunk that could not be stored is left alone."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Some rows of the queue, in memory or in a file, or both."""

    batches: deque[pa.RecordBatch] | None = None
    size_bytes: int = 0
    rows: int = 0
    file: FileRef | None = None
    taken: int = 0
    """Rows that were taken already, counted from the beginning of the file."""
    is_restored: bool = False
    is_logged: bool = False
    is_busy: bool = False
    """Whether it is being stored or read just now."""


class Feedback:
    """The queue of one head, and its open logs."""

    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        self._schema = schema
        self._most_bytes = memory_bytes
        self._chunks: deque[Chunk] = deque()
        self._logs: dict[Epoch, Log] = {}
        self._memory_bytes = 0
        self._stored = 0
        self._store_at = 0.0
        self.rows = 0
        self.arrived_rows = 0

    def open(
        self,
        background: Background,
        clock: Clock,
        files: OperatorFiles,
        fail: Callable[[Exception], None],
        restored: Iterable[Any],
    ) -> None:
        self._background = background
        self._clock = clock
        self._files = files
        self._fail = fail
        for unit in restored:
            self._restore(unit)

    def _restore(self, unit: Any) -> None:
        if unit.path is None:
            batches = deque(self._checked(rows_of(unit.rows)))
            chunk = Chunk(batches, _size(batches), _rows(batches), is_restored=True)
            self._memory_bytes += chunk.size_bytes
        else:
            # How many rows it has is known when it is read.
            file = FileRef(unit.path, unit.size, unit.checksum)
            chunk = Chunk(file=file, taken=unit.skip, is_restored=True, is_logged=True)
        self.rows += chunk.rows
        self._chunks.append(chunk)

    # ------------------------------------------------------------ the queue

    @property
    def is_empty(self) -> bool:
        return not self._chunks

    @property
    def is_replaying(self) -> bool:
        """Whether something of a restored log is still to be taken."""
        return bool(self._chunks) and self._chunks[0].is_restored

    @property
    def is_ready(self) -> bool:
        return bool(self._chunks) and self._chunks[0].batches is not None

    @property
    def is_full(self) -> bool:
        """Whether the head has to wait until rows are stored. Those next in turn never are."""
        if self._memory_bytes <= 2 * self._most_bytes:
            return False
        later = islice(self._chunks, 2, None)
        return any(chunk.batches is not None and chunk.file is None for chunk in later)

    def arrived(self, batch: pa.RecordBatch) -> None:
        """Rows come back. They are in every log that is open."""
        if not batch.num_rows:
            return
        self.arrived_rows += batch.num_rows
        for log in self._logs.values():
            log.entries.append(batch)
        chunk = self._chunks[-1] if self._chunks else None
        if chunk is None or not self._may_grow(chunk):
            chunk = Chunk(deque())
            self._chunks.append(chunk)
        assert chunk.batches is not None
        chunk.batches.append(batch)
        chunk.size_bytes += batch.nbytes
        chunk.rows += batch.num_rows
        self.rows += batch.num_rows
        self._memory_bytes += batch.nbytes

    @staticmethod
    def _may_grow(chunk: Chunk) -> bool:
        is_open = chunk.file is None and not chunk.is_busy and not chunk.is_restored
        return is_open and chunk.batches is not None and chunk.size_bytes < feedback_log.CHUNK_BYTES

    def take(self, max_rows: int) -> pa.RecordBatch | None:
        """The next rows, in the order they came; None when there are none in memory."""
        if not self.is_ready:
            return None
        chunk = self._chunks[0]
        assert chunk.batches is not None
        taken = _up_to(max_rows, chunk.batches)
        chunk.taken += taken.num_rows
        chunk.rows -= taken.num_rows
        self.rows -= taken.num_rows
        if not chunk.batches:
            self._chunks.popleft()
            self._memory_bytes -= chunk.size_bytes
            self._let_go(chunk)
        return taken

    def _let_go(self, chunk: Chunk) -> None:
        """Delete the file if no log has named it; others go with their epochs."""
        file = chunk.file
        if file is not None and not chunk.is_logged:
            files = self._files
            self._background.submit(lambda: files.delete(file), _nothing, _nothing)

    # ------------------------------------------------------------ files

    def tend(self, now: float) -> bool:
        """Start what has to be stored or read; True if anything was."""
        has_begun = self._read_ahead()
        while self._memory_bytes > self._most_bytes and now >= self._store_at:
            chunk = self._next_to_store()
            if chunk is None:
                break
            self._store(chunk)
            has_begun = True
        return has_begun

    def deadline(self) -> float | None:
        return self._store_at if self._memory_bytes > self._most_bytes else None

    def _read_ahead(self) -> bool:
        has_begun = False
        for chunk in [self._chunks[n] for n in range(min(2, len(self._chunks)))]:
            if chunk.batches is None and not chunk.is_busy:
                self._read(chunk)
                has_begun = True
        return has_begun

    def _next_to_store(self) -> Chunk | None:
        """Of the chunks in memory the one whose turn comes last; never the first two."""
        busy = sum(chunk.size_bytes for chunk in self._chunks if chunk.is_busy)
        if self._memory_bytes - busy <= self._most_bytes:
            return None
        for number in range(len(self._chunks) - 1, 1, -1):
            chunk = self._chunks[number]
            if chunk.batches is not None and chunk.file is None and not chunk.is_busy:
                return chunk
        return None

    def _store(self, chunk: Chunk) -> None:
        assert chunk.batches is not None
        chunk.is_busy = True
        self._stored += 1
        files, name, batches = self._files, f"feedback-{self._stored}.arrow", list(chunk.batches)

        def done(file: FileRef) -> None:
            chunk.is_busy = False
            chunk.file = file
            if chunk.batches is None or chunk.taken:
                self._forget_file(chunk)  # its turn came meanwhile
                return
            chunk.batches = None
            self._memory_bytes -= chunk.size_bytes
            chunk.size_bytes = 0

        def failed(_: Exception) -> None:
            # The head waits meanwhile; epochs tell what is wrong with the storage.
            chunk.is_busy = False
            self._store_at = self._clock.monotonic() + RETRY_S

        self._background.submit(lambda: files.write(name, bytes_of(batches)), done, failed)

    def _forget_file(self, chunk: Chunk) -> None:
        file, chunk.file, files = chunk.file, None, self._files
        assert file is not None
        self._background.submit(lambda: files.delete(file), _nothing, _nothing)

    def _read(self, chunk: Chunk) -> None:
        file, skip, files = chunk.file, chunk.taken, self._files
        assert file is not None
        chunk.is_busy = True

        def work() -> list[pa.RecordBatch]:
            return self._checked(rows_of(files.read(file)))

        def done(batches: list[pa.RecordBatch]) -> None:
            chunk.is_busy = False
            chunk.batches = deque(without(batches, skip))
            self.rows -= chunk.rows
            chunk.rows, chunk.size_bytes = _rows(chunk.batches), _size(chunk.batches)
            self.rows += chunk.rows
            self._memory_bytes += chunk.size_bytes
            if not chunk.batches:
                self._chunks.remove(chunk)

        self._background.submit(work, done, self._fail)

    def _checked(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        for batch in batches:
            if not batch.schema.equals(self._schema):
                raise RestoreError(
                    f"in-flight rows of a loop were stored as "
                    f"{format_schema(batch.schema)!r}, and the loop is of "
                    f"{format_schema(self._schema)!r} now. Stop the job with drain=True before "
                    "the rows of a loop are changed."
                )
        return batches

    # ------------------------------------------------------------ logs

    def open_log(self, epoch: Epoch) -> Late:
        """The head passes the marker on: what is queued now belongs to the epoch."""
        entries: list[Entry] = []
        for chunk in self._chunks:
            if chunk.file is not None:
                chunk.is_logged = True
                entries.append((chunk.file, chunk.taken))
            else:
                entries.extend(chunk.batches or ())
        self._logs[epoch] = Log(entries)
        return self._logs[epoch].late

    def close_log(self, epoch: Epoch) -> None:
        """The marker has come back: nothing more belongs to the epoch."""
        log = self._logs.pop(epoch, None)
        if log is None:
            return
        entries = log.entries
        if not entries:
            log.late.is_known = True
            return

        def done(units: list[tuple[Any, ...]]) -> None:
            log.units = units
            log.kept = tuple(e[0] for e in entries if isinstance(e, tuple))
            log.entries = []
            log.late.is_known = True

        def failed(error: Exception) -> None:
            log.late.failure = f"the log of the loop could not be made: {error}"

        self._background.submit(lambda: list(units_of(entries)), done, failed)

    def drop_log(self, epoch: Epoch) -> None:
        """The epoch was given up."""
        self._logs.pop(epoch, None)


def _up_to(max_rows: int, batches: deque[pa.RecordBatch]) -> pa.RecordBatch:
    """The first rows, together: a loop is fed many small batches."""
    taken: list[pa.RecordBatch] = []
    left, size_bytes = max_rows, 0
    while batches and left:
        size_bytes += batches[0].nbytes
        if taken and size_bytes > sizes.ARRAY_BYTES:
            break
        batch = batches.popleft()
        if batch.num_rows > left:
            batches.appendleft(batch.slice(left))
            batch = batch.slice(0, left)
        taken.append(batch)
        left -= batch.num_rows
    return taken[0] if len(taken) == 1 else pa.concat_batches(taken)


def _size(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)


def _rows(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _nothing(_: Any) -> None:
    """A file that is left behind goes with the next attempt."""

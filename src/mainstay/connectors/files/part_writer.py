"""Part files: what one subtask of a file sink writes, and the handle of those that Spark lists.

A part never spans epochs, so that an epoch is whole files.

Rows are gathered on the worker's loop; encoding, compressing, writing and flushing (``open_part``)
are deferred to run in the background.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import pyarrow as pa

from mainstay.connectors.bases.json_handles import read_handle, write_handle
from mainstay.connectors.files.hive_partitions import HivePartitions, check_is_name
from mainstay.connectors.files.open_part import Layout, OpenPart, Part, flush_folder
from mainstay.connectors.files.part_formats import PartFormat
from mainstay.connectors.files.part_names import part_name
from mainstay.runtime.connector import SinkContext, SinkWriter

HANDLE_VERSION = 1
MAX_OPEN_PARTS = 100
"""Parts that are open at a time, each with a file; beyond it the one longest unused is ended."""
MAX_GATHERED_BYTES = 64 << 20
"""Rows that wait in all open parts together; beyond it the part with most of them writes its."""


@dataclass(frozen=True, slots=True)
class Handle:
    """The parts of one subtask in one epoch, and the directory they are in."""

    directory: str
    parts: tuple[Part, ...]

    def to_bytes(self) -> bytes:
        return write_handle(HANDLE_VERSION, asdict(self))

    @staticmethod
    def from_bytes(data: bytes) -> Handle:
        content = read_handle(data, HANDLE_VERSION, "Parquet")
        return Handle(content["directory"], tuple(Part(**part) for part in content["parts"]))


@dataclass(frozen=True, slots=True)
class Rolling:
    """When a part is ended and another begun, beside the end of an epoch."""

    rows: int
    size_bytes: int | None = None
    age_s: float | None = None

    def is_due(self, part: OpenPart, now: float) -> bool:
        return (
            part.rows >= self.rows
            or (self.size_bytes is not None and part.size_bytes >= self.size_bytes)
            or (self.age_s is not None and now - part.opened_at >= self.age_s)
        )


class PartWriter(SinkWriter):
    """Rows are gathered into row groups, row groups into parts, one or more for each directory.

    ``seal`` makes a handle of the parts of an epoch.
    """

    def __init__(
        self,
        layout: Layout,
        context: SinkContext,
        format: PartFormat,
        rolling: Rolling,
        partitions: HivePartitions,
        seal: Callable[[int, pa.Schema, tuple[Part, ...]], bytes],
    ) -> None:
        self._layout = layout
        self._context = context
        self._format = format
        self._rolling = rolling
        self._partitions = partitions
        self._seal = seal
        self._word = uuid.uuid4().hex[:8]
        self._number = 0
        self._open: dict[str, OpenPart] = {}
        """By their directories, the one longest unused first."""
        self._parts: list[OpenPart] = []
        self._unfinished: list[OpenPart] = []
        self._schema: pa.Schema | None = None
        self._working = threading.Lock()
        self._is_closed = False

    # ------------------------------------------------------------ on the loop

    def write(self, batch: pa.RecordBatch) -> Callable[[], None] | None:
        self._schema = batch.schema
        steps = deque(self._steps(batch))
        return (lambda: self._do(steps)) if steps else None

    def _steps(self, batch: pa.RecordBatch) -> Iterator[Callable[[], None]]:
        now = time.monotonic()
        for folder, rows in self._partitions.split(batch):
            yield from self._take(folder, rows, now)
        for folder in [
            name for name, part in self._open.items() if self._rolling.is_due(part, now)
        ]:
            yield from self._end_part(folder)
        yield from self._relieve()

    def _take(self, folder: str, rows: pa.RecordBatch, now: float) -> Iterator[Callable[[], None]]:
        while rows.num_rows:
            part = self._open.pop(folder, None) or self._next(folder, rows.schema, now)
            self._open[folder] = part
            room = self._rolling.rows - part.rows
            part.take(rows.slice(0, room))
            rows = rows.slice(room)
            if self._rolling.is_due(part, now):
                yield from self._end_part(folder)
            elif part.group_is_full:
                yield part.end_group()

    def _relieve(self) -> Iterator[Callable[[], None]]:
        """Keep within bounds what many directories hold at a time."""
        while len(self._open) > MAX_OPEN_PARTS:
            yield from self._end_part(next(iter(self._open)))
        while sum(part.gathered_bytes for part in self._open.values()) > MAX_GATHERED_BYTES:
            yield max(self._open.values(), key=lambda part: part.gathered_bytes).end_group()

    def prepare(self, epoch: int) -> Callable[[], bytes] | None:
        steps = deque(step for folder in list(self._open) for step in self._end_part(folder))
        parts, self._parts = self._parts, []
        return (lambda: self._handle(epoch, steps, parts)) if parts else None

    def _next(self, folder: str, schema: pa.Schema, now: float) -> OpenPart:
        check_is_name(folder)
        self._number += 1
        attempt, subtask = self._context.attempt, self._context.subtask
        base = part_name(attempt, subtask, self._number, self._word)
        name = os.path.join(folder, base + self._format.extension)
        part = OpenPart(self._layout, name, schema, self._format, now)
        self._parts.append(part)
        self._unfinished.append(part)
        return part

    def _end_part(self, folder: str) -> Iterator[Callable[[], None]]:
        part = self._open.pop(folder)
        yield part.end_group()
        yield lambda: self._finish(part)

    def close(self) -> None:
        self._is_closed = True
        self._discard_if_idle()

    # ------------------------------------------------------------ in the background

    def _do(self, steps: deque[Callable[[], None]]) -> None:
        """Take the steps that are left: one that raises is the first when this is called again."""
        with self._working:
            while steps and not self._is_closed:
                steps[0]()
                steps.popleft()
        if self._is_closed:
            self._discard_if_idle()

    def _finish(self, part: OpenPart) -> None:
        part.finish()
        self._unfinished.remove(part)

    def _handle(self, epoch: int, steps: deque[Callable[[], None]], parts: list[OpenPart]) -> bytes:
        self._do(steps)
        whole = tuple(part.whole for part in parts if part.whole is not None)
        self._flush_names(whole)  # the contents are on disk already
        assert self._schema is not None
        return self._seal(epoch, self._schema, whole)

    def _flush_names(self, parts: tuple[Part, ...]) -> None:
        folders = {os.path.dirname(self._layout.hidden(part.name)) for part in parts}
        if self._layout.folder is None:
            # Directories of partitions may be new as well.
            for folder in list(folders):
                while folder != self._layout.directory:
                    folder = os.path.dirname(folder)
                    folders.add(folder)
        for folder in sorted(folders, reverse=True):
            flush_folder(folder)

    def _discard_if_idle(self) -> None:
        """Remove what no handle will ever name; work under way does it when it is done."""
        if not self._working.acquire(blocking=False):
            return
        try:
            while self._unfinished:
                self._unfinished.pop().discard()
        finally:
            self._working.release()

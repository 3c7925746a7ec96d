"""A part file that is being written: from rows that were taken to a file that is whole on disk.

While it is being written it is *hidden*: its name begins with a dot, or it lies in a folder of its
own, which readers of directories pass over. Rows are encoded in memory first, so that what a full
or absent disk has refused can be written again later.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from mainstay.connectors.files.part_formats import Encoder, PartFormat
from mainstay.connectors.formats.soundness import UNWRITABLE
from mainstay.errors import SinkError, named

ROW_GROUP_ROWS = 1 << 16
ROW_GROUP_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A part that is whole and on disk. Its name is its path below the sink's directory."""

    name: str
    size_bytes: int
    rows: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where parts are while they are hidden, and whether they get their names when whole.

    Without a ``folder`` of their own they lie beside the others under a name with a dot, and are
    shown as soon as they are whole. In a folder they stay until somebody moves them.
    """

    directory: str
    folder: str | None = None

    def hidden(self, name: str) -> str:
        parent, base = os.path.split(name)
        if self.folder is not None:
            return os.path.join(self.directory, self.folder, base)
        return os.path.join(self.directory, parent, f".{base}")

    def shown(self, name: str) -> str | None:
        return None if self.folder is not None else os.path.join(self.directory, name)


class OpenPart:
    """A part that is being written: ``take`` and ``end_group`` on the loop, the rest off it."""

    def __init__(
        self, layout: Layout, name: str, schema: pa.Schema, format: PartFormat, now: float
    ) -> None:
        self._name = name
        self._shown = layout.shown(name)
        self._hidden = layout.hidden(name)
        self._encoded = io.BytesIO()
        self._schema = schema
        self._format = format
        self._encoder: Encoder | None = None
        self._descriptor: int | None = None
        self._stored_bytes = 0
        self._is_encoded = False
        self._group: list[pa.RecordBatch] = []
        self._group_rows = 0
        self._taken_bytes = 0
        self._encoded_of = 0
        self.opened_at = now
        self.gathered_bytes = 0
        self.rows = 0
        self.whole: Part | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        self._group.append(batch)
        self._group_rows += batch.num_rows
        self._taken_bytes += batch.nbytes
        self.gathered_bytes += batch.nbytes
        self.rows += batch.num_rows

    @property
    def group_is_full(self) -> bool:
        return self._group_rows >= ROW_GROUP_ROWS or self.gathered_bytes >= ROW_GROUP_BYTES

    @property
    def size_bytes(self) -> int:
        """About how large the file is: what is encoded, and the rest as it is in memory."""
        return self._stored_bytes + self._taken_bytes - self._encoded_of

    def end_group(self) -> Callable[[], None]:
        """What is left to do with the rows gathered so far; it can be called until it is done."""
        group = self._group
        self._group, self._group_rows, self.gathered_bytes = [], 0, 0
        return lambda: self._write(group)

    def _write(self, group: list[pa.RecordBatch]) -> None:
        if group:
            table = pa.Table.from_batches(group)
            self._encode(lambda to: to.write(table))
            self._encoded_of += sum(batch.nbytes for batch in group)
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
        shown = self._shown
        if shown is not None and (os.path.exists(self._hidden) or not os.path.exists(shown)):
            os.rename(self._hidden, shown)

    def _encode(self, encode: Callable[[Encoder], None]) -> None:
        try:
            if self._encoder is None:
                self._encoder = self._format.encoder(self._encoded, self._schema)
            encode(self._encoder)
        except UNWRITABLE as error:
            raise SinkError(
                f"rows cannot be written to {self._name!r}: {named(error)}. Give "
                f"the sink rows and a schema that {self._format.name} has types and values for."
            ) from error

    def _store(self) -> None:
        """Write what is encoded; after a failure, all of it again in the same place."""
        if self._descriptor is None:
            self._descriptor = self._create()
        os.lseek(self._descriptor, self._stored_bytes, os.SEEK_SET)
        data = memoryview(self._encoded.getvalue())
        written = 0
        while written < len(data):
            written += os.write(self._descriptor, data[written:])
        self._stored_bytes += written
        self._encoded.seek(0)
        self._encoded.truncate()

    def _create(self) -> int:
        if os.path.dirname(self._name):
            os.makedirs(os.path.dirname(self._hidden), exist_ok=True)
        return os.open(self._hidden, os.O_WRONLY | os.O_CREAT, 0o666)

    def _flush(self) -> Part:
        descriptor, self._descriptor = self._descriptor, None
        assert descriptor is not None
        try:
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        except OSError as error:
            # The system may have forgotten what it could not write: nothing can be relied on.
            raise SinkError(
                f"{self._hidden!r} could not be made durable: {error}. Its rows are written again "
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


def flush_folder(path: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

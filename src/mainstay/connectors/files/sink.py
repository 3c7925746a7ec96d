"""A directory of Parquet, CSV or JSON-lines files, in which only committed files are seen.

::

    stream.sink(FileSink("./totals", format="csv", partition_by=["day"]), uid="out")
    read_committed("./totals", schema="customer string, total long, day date")

Subtasks write parts (``part_writer``) to the hidden folder ``_mainstay/parts``. When an epoch is
complete the driver *lists* the parts of all subtasks in one batch (``file_listing``): that is the
commit. Then it *shows* them, each by a rename to its place. An epoch that is committed again finds
that it is listed, and renames what is left to rename.

So a program that goes by the listing sees whole epochs. One that looks at the directory sees whole
files of committed epochs, each once, while they appear one after the other. Where small files are
merged (``file_compaction``) only the listing is exact at every moment.

A directory belongs to one sink of one job, by the file ``_mainstay/owner``.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from mainstay.connectors.bases.json_handles import read_handle, write_handle
from mainstay.connectors.files.compaction import PARTS, Compaction, place_of, show
from mainstay.connectors.files.hive_partitions import HivePartitions, columns_of
from mainstay.connectors.files.listing import Contents, FileListing, ListedFile
from mainstay.connectors.files.open_part import Layout, Part
from mainstay.connectors.files.output_directory import (
    check_is_mounted,
    claim,
    directory_of,
    files_below,
    is_owned,
    no_access,
    remove,
)
from mainstay.connectors.files.part_formats import PartFormat
from mainstay.connectors.files.part_names import attempt_of
from mainstay.connectors.files.part_writer import PartWriter, Rolling
from mainstay.connectors.files.spark_log import has_log
from mainstay.errors import GraphError, SinkError
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import seconds, size
from mainstay.runtime.connector import Sink, SinkContext, SinkRecovery, SinkWriter
from mainstay.snapshot.object_storage import open_storage

HANDLE_VERSION = 1

_driving = threading.Lock()
"""Held by the driver while it commits or recovers: attempts of one process do not overlap."""


@made_with_own_frames
class FileSink(Sink):
    """Appends rows to a directory on a local disk, or one that all machines have mounted.

    A subtask writes at least one file in each epoch that has rows, for each combination of the
    values of ``partition_by`` (``day=2024-05-01/``, as Spark does), and begins another after
    ``roll_rows`` rows, about ``roll_bytes`` bytes, or ``roll_every``. A file never spans epochs.

    With ``compact`` files of a directory that are smaller than half of that size are merged into
    files of about that size, once there are enough of them to be worth it.
    """

    is_global = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "parquet",
        partition_by: str | Sequence[str] = (),
        roll_rows: int = 1_000_000,
        roll_bytes: str | int | None = "128MiB",
        roll_every: str | float | None = None,
        compression: str | None = None,
        compact: str | int | None = None,
    ) -> None:
        self.format = PartFormat.checked(format, compression, "FileSink")
        self.partition_by = columns_of(partition_by, "FileSink")
        self.rolling = _rolling(roll_rows, roll_bytes, roll_every)
        self.compaction = None if compact is None else Compaction(_size(compact, "compact"))
        self.path = directory_of(path, GraphError)
        self.owned = self.path
        self.run = uuid.uuid4().hex[:12]
        self._fence = ""
        _check_has_no_log(self.path, GraphError)

    def check_schema(self, schema: pa.Schema) -> None:
        partitions = HivePartitions(self.partition_by)
        partitions.check(schema)
        partitions.check_is_seen()
        self.format.check(partitions.without(schema))

    def open(self, context: SinkContext) -> SinkWriter:
        claim(self.path, context, lambda: _check_has_no_log(self.path, SinkError))
        try:
            os.makedirs(os.path.join(self.path, PARTS), exist_ok=True)
        except OSError as error:
            raise no_access(self.path, context, error) from error
        return PartWriter(
            Layout(self.path, PARTS),
            context,
            self.format,
            self.rolling,
            HivePartitions(self.partition_by),
            self._handle,
        )

    def __getstate__(self) -> dict[str, Any]:
        """The copy that is sent to the workers of an attempt is a run of its own."""
        return {**self.__dict__, "run": uuid.uuid4().hex[:12]}

    def _handle(self, epoch: int, schema: pa.Schema, parts: tuple[Part, ...]) -> bytes:
        return Handle(self.path, self.run, epoch, parts).to_bytes()

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        by_directory: dict[str, list[Handle]] = {}
        for handle in map(Handle.from_bytes, handles):
            # The directory is the handle's: the job may have been given another one since.
            by_directory.setdefault(handle.directory, []).append(handle)
        with _driving:
            for directory, group in by_directory.items():
                self._commit(directory, group)

    def _commit(self, directory: str, handles: list[Handle]) -> None:
        check_is_mounted(directory)
        listing = FileListing(open_storage(directory), SinkError)
        listing.change(lambda before: _with(before, directory, handles))
        show(directory, [part.name for handle in handles for part in handle.parts])
        if self.compaction is not None and self._fence and directory == self.path:
            self.compaction.run(directory, self.format, listing, self._fence)

    def recover(self, recovery: SinkRecovery) -> None:
        """Show what is listed, and delete what is not and by now never will be."""
        with _driving:
            self._fence = uuid.uuid4().hex[:12]
            if is_owned(self.path, recovery.lineage, recovery.uid):
                self._recover(recovery.attempt)

    def _recover(self, attempt: int) -> None:
        listing = FileListing(open_storage(self.path), SinkError)
        # An older leader that lives on can replace nothing from here on.
        contents = listing.change(lambda before: replace(before, fence=self._fence))
        listed = {file.path for file in contents.files}
        show(self.path, listed)
        names = {os.path.basename(path) for path in listed}
        parts = os.path.join(self.path, PARTS)
        for name in os.listdir(parts) if os.path.isdir(parts) else ():
            if name not in names and _is_older(name, attempt):
                remove(os.path.join(parts, name))
        _remove_replaced(self.path, listed, attempt)


@dataclass(frozen=True, slots=True)
class Handle:
    """The parts of one subtask in one epoch of one run."""

    directory: str
    run: str
    epoch: int
    parts: tuple[Part, ...]

    def to_bytes(self) -> bytes:
        return write_handle(HANDLE_VERSION, asdict(self))

    @staticmethod
    def from_bytes(data: bytes) -> Handle:
        content = read_handle(data, HANDLE_VERSION, "file")
        parts = tuple(Part(**part) for part in content.pop("parts"))
        return Handle(**content, parts=parts)


def _with(before: Contents, directory: str, handles: Iterable[Handle]) -> Contents | None:
    """The contents with what is new in the handles; None if nothing is."""
    new = [each for each in handles if not before.has_committed(each.run, each.epoch)]
    if not new:
        return None
    epochs = dict(before.epochs)
    for handle in new:
        epochs[handle.run] = max(epochs.get(handle.run, 0), handle.epoch)
    files = [
        ListedFile(part.name, part.size_bytes, part.rows, handle.epoch)
        for handle in new
        for part in handle.parts
    ]
    for file in files:
        _check_is_there(directory, file)
    return replace(before, epochs=epochs, files=before.files + tuple(files))


def _check_is_there(directory: str, file: ListedFile) -> None:
    place = place_of(directory, file.path)
    found = None if place is None else os.path.getsize(place)
    if found != file.size_bytes:
        state = "is not there" if found is None else f"has {found} bytes"
        raise SinkError(
            f"the part {file.path!r} of epoch {file.epoch}, written to {directory!r} with "
            f"{file.size_bytes} bytes, {state}, so it cannot be committed. Driver and workers must "
            "see the same directory, and nobody else may delete files in it."
        )


def _is_older(name: str, attempt: int) -> bool:
    """Whether a file was written, or merged, by an earlier attempt."""
    writer = attempt_of(name)
    return writer is not None and writer < attempt


def _remove_replaced(directory: str, listed: Collection[str], attempt: int) -> None:
    """Finish a compaction that died: what is seen and not listed has been merged.

    A part is listed before it is shown, so nothing else can be seen without being listed.
    """
    for path in files_below(directory):
        name = os.path.relpath(path, directory)
        if name not in listed and _is_older(os.path.basename(path), attempt):
            remove(path)


def _rolling(rows: Any, size_bytes: Any, every: Any) -> Rolling:
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise GraphError(f"FileSink(roll_rows={rows!r}) must be a number of at least 1.")
    age_s = None if every is None else seconds(every, "roll_every", positive=True)
    return Rolling(rows, None if size_bytes is None else _size(size_bytes, "roll_bytes"), age_s)


def _size(value: str | int, name: str) -> int:
    found = size(value, name)
    if found < 1:
        raise GraphError(f"FileSink({name}={value!r}) must be at least one byte.")
    return found


def _check_has_no_log(directory: str, error: type[Exception]) -> None:
    if has_log(directory):
        raise error(
            f"the directory {directory!r} has a log of Spark's, so Spark would not see the files "
            "of a FileSink. Choose another directory, or write with ParquetSink."
        )

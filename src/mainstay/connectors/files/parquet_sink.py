"""A directory of Parquet files in which Spark sees whole epochs, each exactly once.

::

    stream.sink(ParquetSink("./totals"), uid="out")
    spark.read.parquet("./totals")          # committed epochs only; readStream follows them
    read_committed("./totals")              # the same rows without Spark

Subtasks write parts (``part_writer``); when an epoch is complete the driver lists the parts of
all subtasks in one batch of Spark's own file log (``spark_log``). The batch is created in one
act, and parts that are listed already are not listed again, so an epoch is committed wholly or not
at all, however often it is tried. Programs that do not read the log see whole files, among them
some that are not committed. Where small files are merged (``spark_log_compaction``) they also see
rows twice.

A directory belongs to one sink of one job, by the file ``_mainstay/owner``.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Sequence

import pyarrow as pa

from mainstay.connectors.files.hive_partitions import HivePartitions, columns_of
from mainstay.connectors.files.open_part import Layout
from mainstay.connectors.files.output_directory import (
    check_is_mounted,
    claim,
    directory_of,
    files_below,
    is_claimed,
    is_owned,
    no_access,
    remove,
)
from mainstay.connectors.files.part_formats import PartFormat, names_alike
from mainstay.connectors.files.part_names import attempt_of
from mainstay.connectors.files.part_writer import Handle, PartWriter, Rolling
from mainstay.connectors.files.spark_log import FOLDER, ListedFile, SparkFileLog, has_log
from mainstay.connectors.files.spark_log_compaction import (
    LogCompaction,
    fence_of,
    raise_fence,
    remove_outlived,
    replaced_files,
)
from mainstay.errors import GraphError, SinkError
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import size
from mainstay.runtime.connector import Sink, SinkContext, SinkRecovery, SinkWriter
from mainstay.snapshot.object_storage import open_storage

_driving = threading.Lock()
"""Held by the driver while it merges or recovers: attempts of one process do not overlap."""


@made_with_own_frames
class ParquetSink(Sink):
    """Appends rows to a directory on a local disk, or one that all machines have mounted.

    A subtask writes at least one file in each epoch that has rows, and a further one after every
    ``rows_per_file`` rows. The directory is made when it is absent. With ``partition_by`` it does
    so in a directory for each combination of values (``day=2024-05-01/``), as Spark does.

    With ``compact`` files of a directory that are smaller than half of that size are merged into
    files of about that size, once there are enough of them, with every tenth batch of the log.
    A Spark stream that follows the directory takes a merged file for new rows: leave it out there.
    """

    is_global = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows_per_file: int = 1_000_000,
        compression: str = "zstd",
        partition_by: str | Sequence[str] = (),
        compact: str | int | None = None,
    ) -> None:
        is_number = isinstance(rows_per_file, int) and not isinstance(rows_per_file, bool)
        if not is_number or rows_per_file < 1:
            raise GraphError(
                f"ParquetSink(rows_per_file={rows_per_file!r}) must be a number of at least 1."
            )
        self.path = directory_of(path, GraphError)
        self.owned = self.path
        self.rows_per_file = rows_per_file
        self.compression = PartFormat.checked("parquet", compression, "ParquetSink").compression
        self.partition_by = columns_of(partition_by, "ParquetSink")
        self.compaction = None if compact is None else LogCompaction(size(compact, "compact"))
        if self.compaction is not None and self.compaction.size_bytes < 1:
            raise GraphError(f"ParquetSink(compact={compact!r}) must be at least one byte.")
        self._fence = ""
        if not is_claimed(self.path):
            _check_is_free(self.path, GraphError)

    def check_schema(self, schema: pa.Schema) -> None:
        partitions = HivePartitions(self.partition_by)
        partitions.check(schema)
        partitions.check_is_seen()
        self._format.check(partitions.without(schema))
        if alike := names_alike(pa.struct(schema)):
            raise SinkError(
                f"the columns {' and '.join(map(repr, alike))} differ only in case, and Spark does "
                "not tell such names apart (COLUMN_ALREADY_EXISTS). Rename one, as with map(), or "
                "use FileSink for readers that tell them apart."
            )

    def open(self, context: SinkContext) -> SinkWriter:
        claim(self.path, context, lambda: _check_is_free(self.path, SinkError))
        try:
            # Where this folder exists Spark goes by the log alone: no part may be there before it.
            os.makedirs(os.path.join(self.path, FOLDER), exist_ok=True)
        except OSError as error:
            raise no_access(self.path, context, error) from error
        return PartWriter(
            Layout(self.path),
            context,
            self._format,
            Rolling(self.rows_per_file),
            HivePartitions(self.partition_by),
            lambda epoch, schema, parts: Handle(self.path, parts).to_bytes(),
        )

    @property
    def _format(self) -> PartFormat:
        return PartFormat("parquet", self.compression)

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        """List the parts of all subtasks in one batch, unless they are listed already."""
        listed: dict[str, list[ListedFile]] = {}
        for handle in map(Handle.from_bytes, handles):
            # The directory is the handle's: the job may have been given another one since.
            listed.setdefault(handle.directory, []).extend(
                ListedFile(
                    os.path.join(handle.directory, part.name),
                    part.size_bytes,
                    part.modified_ms,
                    epoch,
                )
                for part in handle.parts
            )
        for directory, files in listed.items():
            self._commit(directory, files)

    def _commit(self, directory: str, files: Sequence[ListedFile]) -> None:
        check_is_mounted(directory)
        log = SparkFileLog(open_storage(directory), SinkError)
        log.append(files)
        with _driving:
            if self.compaction is not None and self._fence and directory == self.path:
                self.compaction.run(directory, self._format, log, self._fence)
            remove_outlived(directory, log)

    def recover(self, recovery: SinkRecovery) -> None:
        """Delete the parts of earlier attempts that are not committed, and by now never will be."""
        with _driving:
            self._fence = uuid.uuid4().hex[:12]
            if is_owned(self.path, recovery.lineage, recovery.uid) and has_log(self.path):
                self._recover(recovery.attempt)

    def _recover(self, attempt: int) -> None:
        log = SparkFileLog(open_storage(self.path), SinkError)
        if self.compaction is not None or fence_of(self.path) is not None:
            raise_fence(self.path, self._fence, log)
        remove_outlived(self.path, log)
        kept = {file.path for file in log.files()} | replaced_files(self.path)
        for path in files_below(self.path):
            writer = attempt_of(os.path.basename(path))
            if writer is None or writer >= attempt or path in kept:
                continue
            remove(path)


def _check_is_free(directory: str, error: type[Exception]) -> None:
    """Refuse a directory with Parquet files or a log that no ParquetSink has written."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    foreign = sorted(name for name in names if name.endswith(".parquet") and name[0] not in "._")
    if has_log(directory):
        foreign += [f"{FOLDER}/{name}" for name in os.listdir(os.path.join(directory, FOLDER))]
    if foreign:
        raise error(
            f"the directory {directory!r} holds {foreign[0]!r}, which no ParquetSink has written: "
            "with the sink's log in it Spark would no longer read that. Choose another directory."
        )

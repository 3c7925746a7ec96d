"""A directory of Parquet files in which Spark sees whole epochs, each exactly once.

::

    stream.sink(ParquetSink("./totals"), uid="out")
    spark.read.parquet("./totals")          # committed epochs only; readStream follows them
    read_committed("./totals")              # the same rows without Spark

Subtasks write parts (``parquet_writer``); when an epoch is complete the driver lists the parts of
all subtasks in one batch of Spark's own file log (``spark_file_log``). The batch is created in one
act, and parts that are listed already are not listed again, so an epoch is committed wholly or not
at all, however often it is tried. Programs that do not read the log see whole files, among them
some that are not committed.

A directory belongs to one sink of one job, by the file ``_mainstay/owner``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors.parquet_writer import Handle, PartWriter, attempt_of
from mainstay.connectors.spark_file_log import (
    FOLDER,
    ListedFile,
    SparkFileLog,
    has_log,
    local_path,
)
from mainstay.errors import GraphError, SinkError, SnapshotStorageError, SourceError
from mainstay.runtime.connector import Sink, SinkContext, SinkRecovery, SinkWriter
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import NotFound, Storage

OWNER = "_mainstay/owner"
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


class ParquetSink(Sink):
    """Appends rows to a directory on a local disk, or one that all machines have mounted.

    A subtask writes at least one file in each epoch that has rows, and a further one after every
    ``rows_per_file`` rows. The directory is made when it is absent.
    """

    is_global = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows_per_file: int = 1_000_000,
        compression: str = "zstd",
    ) -> None:
        is_number = isinstance(rows_per_file, int) and not isinstance(rows_per_file, bool)
        if not is_number or rows_per_file < 1:
            raise GraphError(
                f"ParquetSink(rows_per_file={rows_per_file!r}) must be a number of at least 1."
            )
        if compression not in COMPRESSIONS:
            raise GraphError(
                f"ParquetSink(compression={compression!r}) must be one of "
                f"{', '.join(COMPRESSIONS)}."
            )
        self.path = _directory(path, GraphError)
        self.rows_per_file = rows_per_file
        self.compression = compression
        if not os.path.exists(os.path.join(self.path, OWNER)):
            _check_is_free(self.path, GraphError)

    def open(self, context: SinkContext) -> SinkWriter:
        try:
            os.makedirs(self.path, exist_ok=True)
            self._claim(context)
            # Where this folder exists Spark goes by the log alone: no part may be there before it.
            os.makedirs(os.path.join(self.path, FOLDER), exist_ok=True)
        except (OSError, SnapshotStorageError) as error:
            raise SinkError(
                f"sink {context.uid!r} cannot write to the directory {self.path!r}: {error}. Grant "
                "write permission or choose another directory."
            ) from error
        return PartWriter(self.path, context, self.rows_per_file, self.compression)

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
            _check_is_mounted(directory)
            SparkFileLog(open_storage(directory), SinkError).append(files)

    def recover(self, recovery: SinkRecovery) -> None:
        """Delete the parts of earlier attempts that are not committed, and by now never will be."""
        if not has_log(self.path):
            return
        storage = open_storage(self.path)
        listed = {file.path for file in SparkFileLog(storage, SinkError).files()}
        for name in os.listdir(self.path):
            writer = attempt_of(name)
            if (
                writer is None
                or writer >= recovery.attempt
                or os.path.join(self.path, name) in listed
            ):
                continue
            storage.delete(name)

    def _claim(self, context: SinkContext) -> None:
        """Make the directory this sink's, or refuse one that is another's."""
        storage = open_storage(self.path)
        us = json.dumps([context.lineage, context.uid])
        owner = _owner(storage)
        if owner is None:
            self._check_is_still_free(storage)
            # Of several subtasks one creates it; whoever it was, what counts is what it says.
            storage.create(OWNER, us.encode())
            owner = _owner(storage)
        if owner != us:
            raise SinkError(
                f"the directory {self.path!r} belongs to {owner} and not to {us} (job and sink). "
                f"Choose another directory, or, if that job will never run again, write {us} to "
                f"the file {OWNER!r} in this one."
            )

    def _check_is_still_free(self, storage: Storage) -> None:
        try:
            _check_is_free(self.path, SinkError)
        except SinkError:
            # Parts come after the owner: what was found may be another subtask's first part.
            if _owner(storage) is None:
                raise


def read_committed(path: str | os.PathLike[str]) -> pa.Table:
    """The rows of all committed epochs in a directory, in the order of their commits."""
    directory = _directory(path, SourceError)
    if not has_log(directory):
        raise SourceError(
            f"the directory {directory!r} has no {FOLDER!r}: neither a ParquetSink nor a Spark "
            "stream has written to it. Correct the path."
        )
    files = SparkFileLog(open_storage(directory), SourceError).files()
    tables = [pq.ParquetFile(file.path).read() for file in files]
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def _owner(storage: Storage) -> str | None:
    try:
        return storage.read(OWNER).decode().strip()
    except NotFound:
        return None


def _check_is_mounted(directory: str) -> None:
    """A directory that has gone as a whole may come back: that is no reason to give up."""
    if not os.path.exists(os.path.join(directory, OWNER)):
        raise FileNotFoundError(
            f"the directory {directory!r} or its file {OWNER!r} is not there; mount it again."
        )


def _directory(path: str | os.PathLike[str], error: type[Exception]) -> str:
    """The absolute local path of a directory that need not exist."""
    text = os.fspath(path)
    local = local_path(text) if "://" in text else text
    if not local:
        raise error(
            f"{text!r} is not a directory on a local or mounted disk; only there are Parquet files "
            "written with Spark's log. Give a path or a file:/// URL."
        )
    directory = os.path.abspath(os.path.expanduser(local))
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise error(f"{directory!r} is a file. Name a directory.")
    return directory


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

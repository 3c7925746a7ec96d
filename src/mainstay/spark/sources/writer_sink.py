"""Any stream writer of a PySpark data source as a sink of a job.

::

    stream.sink(Orders({"path": "./orders"}), uid="out")
    stream.sink(pyspark_sink(Orders({...}), stream.schema, overwrite=True), uid="out")

``write(iterator)`` is called on the workers with the rows of an epoch and gives a commit message,
which is part of the snapshot. When the epoch is complete, ``commit(messages, batchId)`` is called
at the driver; the batch id is the number of the epoch. A commit whose outcome is not known is
made again with the same messages and batch id, so a writer has to be idempotent by its batch id,
as Spark asks for, too. An epoch without rows is not committed: batch ids grow, with gaps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from mainstay.errors import GraphError, SinkError
from mainstay.runtime.connector import Sink, SinkContext, SinkWriter
from mainstay.spark.sources.rows import to_rows
from mainstay.spark.sources.schema import Columns, columns_of
from mainstay.spark.sources.writer_handle import Handle, batches_to_commit, packed, unpacked
from mainstay.spark.sources.writer_task import task_of_its_own

PART_BYTES = 64 * 1024 * 1024
"""So many bytes of rows are gathered for one call of ``write``; an epoch with more has several."""
NO_BATCH = -1
"""The batch id of messages that never came to be in a batch."""

_log = logging.getLogger("mainstay")


def pyspark_sink(data_source: Any, schema: Any, *, overwrite: bool = False) -> Sink:
    """A sink that writes rows of a schema by a data source's ``streamWriter``.

    ``stream.sink(data_source)`` is this with the schema of the stream.
    """
    if not isinstance(data_source, DataSource):
        raise GraphError(
            f"pyspark_sink({data_source!r}) needs an instance of a subclass of "
            "pyspark.sql.datasource.DataSource."
        )
    name = type(data_source).__name__
    if type(data_source).streamWriter is DataSource.streamWriter:
        raise GraphError(
            f"the data source {name} has no streamWriter method, which is what a stream is "
            "written by: a batch writer's commit has no batch id, so it could not be made again "
            "after a failure without writing rows twice. Implement streamWriter."
        )
    return StreamWriterSink(data_source, columns_of(schema, name), overwrite=overwrite)


class StreamWriterSink(Sink):
    """One batch for each epoch that has rows, committed by the driver."""

    keeps_pickles = True

    is_global = True

    def __init__(self, data_source: Any, columns: Columns, *, overwrite: bool) -> None:
        self.data_source = data_source
        self.columns = columns
        self.overwrite = overwrite
        self.place = f"data source {type(data_source).__name__}"
        self._committed = 0

    def writer(self) -> Any:
        """A new writer, as Spark makes one for every write and every commit."""
        return self.data_source.streamWriter(schema=self.columns.struct, overwrite=self.overwrite)

    def open(self, context: SinkContext) -> SinkWriter:
        return StreamWriterWriter(self, context)

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        """Commit the batches one after the other, each wholly and in the order of their ids."""
        batches = batches_to_commit(map(Handle.from_bytes, handles))
        for batch_id, parts in batches.items():
            # Epochs are never counted twice, so what this process has committed is done.
            if batch_id <= self._committed:
                continue
            messages = [message for part in parts for message in unpacked(part, self.place)]
            if messages:
                self.writer().commit(messages, batch_id)
            self._committed = batch_id


class StreamWriterWriter(SinkWriter):
    """Gathers the rows of an epoch and has them written in the background."""

    def __init__(self, sink: StreamWriterSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._parts: list[_Part] = []
        self._previous: int | None = None

    def write(self, batch: pa.RecordBatch) -> Callable[[], object] | None:
        if not self._parts or self._parts[-1].is_full:
            self._parts.append(_Part(self._sink, self._context))
        part = self._parts[-1]
        part.add(batch)
        return part.write if part.is_full else None

    def prepare(self, epoch: int) -> bytes | Callable[[], bytes]:
        parts, self._parts = self._parts, []
        previous, self._previous = self._previous, epoch
        context = self._context

        def finish() -> bytes:
            messages = packed([part.write() for part in parts], self._sink.place)
            return Handle(context.attempt, context.subtask, epoch, previous, messages).to_bytes()

        return finish if parts else finish()

    def close(self) -> None:
        """What was written for an epoch that was never prepared will never be committed."""
        messages = [part.message for part in self._parts if part.is_written]
        if not messages:
            return
        try:
            self._sink.writer().abort(messages, NO_BATCH)
        except Exception as error:
            # The attempt ends in any case, and what is left behind belongs to no batch.
            _log.warning(
                "sink %r, subtask %s: %s could not abort what it had written: %s: %s",
                self._context.uid,
                self._context.subtask,
                self._sink.place,
                type(error).__name__,
                error,
            )


class _Part:
    """Rows for one call of ``write``."""

    def __init__(self, sink: StreamWriterSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._batches: list[pa.RecordBatch] = []
        self._size_bytes = 0
        self.is_written = False
        self.message: Any = None

    @property
    def is_full(self) -> bool:
        return self._size_bytes >= PART_BYTES

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._size_bytes += batch.nbytes

    def write(self) -> Any:
        """Write the rows unless they are written. After a failure all of them are written again:
        what a call without a message has left behind is in no commit."""
        if not self.is_written:
            self.message = self._written()
            self.is_written = True
            self._batches = []
        return self.message

    def _written(self) -> Any:
        sink, writer = self._sink, self._sink.writer()
        is_arrow = isinstance(writer, DataSourceStreamArrowWriter)
        rows = iter(self._batches) if is_arrow else to_rows(self._batches, sink.columns)
        with task_of_its_own(self._context.subtask, self._context.attempt):
            message = writer.write(rows)
        if message is not None and not isinstance(message, WriterCommitMessage):
            raise SinkError(
                f"{sink.place} returned {message!r} from write(iterator), which is no "
                "WriterCommitMessage. Return an instance of a subclass of it."
            )
        return message

"""The stream sink that a streaming DataFrame is written to: batches of an ingest log.

Executors write files of their own names. What counts is decided by the driver's ``commit``, which
claims the batch's slot, so that retried tasks and batches that run again add nothing.

**Backpressure.** When more than ``most_unread_bytes`` of the log are not read yet, ``commit`` waits
after it has claimed the slot, and with it the whole query. How much was read is known from the
job's epochs, so the bound should be more than comes in between two of them. The wait looks at the
log's mark, which is all that this process and the job share, and ends after ``LONGEST_WAIT_S``: a
job that stands still for longer lets in one batch in that time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from mainstay.connectors.ingest.files import write_files
from mainstay.connectors.ingest.log import DataFile, IngestLog
from mainstay.errors import SparkSetupError
from mainstay.schema import parse_schema
from mainstay.snapshot.object_storage import open_storage

FORMAT = "mainstay_ingest"
MOST_UNREAD_BYTES = 512 << 20
LONGEST_WAIT_S = 60.0
LOOK_AGAIN_S = 0.1


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote, and for which query."""

    query: str
    files: list[DataFile]


class IngestSink(DataSource):
    """``writeStream.format(FORMAT)``; options: location, uid, columns, time_column,
    most_unread_bytes."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: Any, overwrite: bool) -> IngestWriter:  # noqa: N802
        return IngestWriter(
            self.options["location"],
            self.options["uid"],
            self.options["columns"],
            int(self.options["most_unread_bytes"]),
            _number(self.options["time_column"]),
        )


class IngestWriter(DataSourceStreamArrowWriter):
    """Made for every batch, in the driver and in every task."""

    def __init__(
        self,
        location: str,
        uid: str,
        columns: str,
        most_unread_bytes: int,
        time_column: int | None,
    ) -> None:
        self._location = location
        self._uid = uid
        self._columns = columns
        self._most_unread_bytes = most_unread_bytes
        self._time_column = time_column

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        query = context.getLocalProperty("sql.streaming.queryId")
        if batch is None or query is None:
            raise SparkSetupError(
                f"Spark did not tell which batch of which query a task of the ingest of "
                f"{self._uid!r} is of. Mainstay needs Spark 4.1 or newer."
            )
        files = write_task(
            self._location, self._uid, self._columns, batch, iterator, self._time_column
        )
        return Written(query, files)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [message for message in messages if isinstance(message, Written)]
        files = [file for message in written for file in message.files]
        query = written[0].query if written else None
        log = IngestLog(open_storage(self._location), self._uid)
        slot = log.commit(batchId, query, files)
        self._await_room(log, slot.bytes_after)

    def _await_room(self, log: IngestLog, total_bytes: int) -> None:
        deadline = time.monotonic() + LONGEST_WAIT_S
        while time.monotonic() < deadline:
            mark = log.mark()
            if mark.is_closing or total_bytes - mark.read_bytes <= self._most_unread_bytes:
                return
            time.sleep(LOOK_AGAIN_S)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: no slot names the files, and the batch will be run again."""


def write_task(
    location: str,
    uid: str,
    columns: str,
    batch: int | str,
    batches: Iterator[pa.RecordBatch],
    time_column: int | None = None,
) -> list[DataFile]:
    """Write the rows of one attempt of one task; runs on an executor."""
    context = TaskContext.get()
    assert context is not None
    storage = open_storage(location)
    log = IngestLog(storage, uid)
    own = f"{context.partitionId():05d}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}"

    def path_of(number: int) -> str:
        return log.data_path(int(batch), f"{own}-{number}")

    schema = parse_schema(columns)
    return write_files(storage, batches, schema, path_of, time_column=time_column)


def _number(text: str) -> int | None:
    return int(text) if text else None

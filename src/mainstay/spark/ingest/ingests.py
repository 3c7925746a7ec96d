"""The ingests of one job, from its start to its end.

Batch DataFrames are written before the workers start, because both need the same slots; streaming
ones are written while the job runs. As epochs complete, the logs' marks move on and what no
retained epoch needs is deleted.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from mainstay.connectors.ingest.log import IngestLog
from mainstay.connectors.ingest.retention import IngestRetention
from mainstay.errors import MainstayError, SnapshotStorageError, SourceError
from mainstay.spark.ingest.dataframes import Ingest
from mainstay.spark.ingest.query import IngestQuery, cause
from mainstay.spark.ingest.query_identity import check_query
from mainstay.spark.ingest.writing import write_batch
from mainstay.spark.launch.cluster import Cluster

TEND_S = 1.0


class Ingesting:
    """Starts, maintains and ends what writes the ingest logs of a job."""

    def __init__(
        self,
        ingests: Sequence[Ingest],
        cluster: Cluster,
        tasks: int,
        last_epoch: Callable[[], int | None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._cluster = cluster
        self._batch = [ingest for ingest in ingests if not ingest.is_streaming]
        self._streaming = [ingest for ingest in ingests if ingest.is_streaming]
        self._queries = [IngestQuery(ingest, tasks, failed) for ingest in self._streaming]
        self._last_epoch = last_epoch
        self._failed = failed
        self._is_writing = False
        self._tag = f"mainstay-ingest-{uuid.uuid4().hex}"
        self._closing = threading.Event()
        self._tending = threading.Thread(target=self._tend, name="mainstay-ingest", daemon=True)

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def is_written(self) -> bool:
        """Whether all that was available is in the logs, and nothing else will be."""
        return all(query.is_done.is_set() for query in self._queries)

    def pause(self, seconds: float) -> bool:
        """Wait, unless the job is ending; says whether it is."""
        return self._closing.wait(seconds)

    def begin(self) -> None:
        """Write the batch DataFrames to the end, and begin with the streaming ones."""
        for ingest in (*self._batch, *self._streaming):
            log = IngestLog(ingest.source.storage, ingest.uid)
            check_query(ingest.df, log, allow_changed=ingest.allow_changed_query)
        for ingest in self._batch:
            if not self.is_closing:
                self._write(ingest)
        if self._streaming and not self.is_closing:
            self._say_closing(False)
            self._is_writing = True
            for query in self._queries:
                query.start()
            self._tending.start()

    def _write(self, ingest: Ingest) -> None:
        try:
            write_batch(ingest, self._cluster, self._tag)
        except MainstayError:
            raise
        except Exception as error:
            raise SourceError(
                f"the DataFrame of {ingest.uid!r} cannot be written to its ingest log: "
                f"{cause(error)}"
            ) from error

    def cancel(self) -> None:
        """Give up what ``begin`` is writing; from any thread."""
        self._closing.set()
        if self._batch:
            self._cluster.cancel(self._tag)

    def end(self) -> None:
        """Stop the queries; nothing is written any more when this returns."""
        self._closing.set()
        if not self._is_writing:
            return
        self._tending.join()
        try:
            # A query that waits for room must hear of the end, or stopping it would wait as well.
            self._say_closing(True)
        finally:
            for query in self._queries:
                query.stop()

    def _say_closing(self, is_closing: bool) -> None:
        for ingest in self._streaming:
            log = IngestLog(ingest.source.storage, ingest.uid)
            log.set_mark(replace(log.mark(), is_closing=is_closing))

    def _tend(self) -> None:
        kept = [IngestRetention(i.source.storage, i.uid) for i in self._streaming]
        tended: int | None = None
        while not self._closing.wait(TEND_S):
            epoch = self._last_epoch()
            if epoch is None or epoch == tended:
                continue
            try:
                for retention in kept:
                    retention.advance()
                tended = epoch
            except SnapshotStorageError:
                continue  # Nothing that is needed was deleted; the next look does the rest.
            except Exception as error:
                self._failed(SourceError(f"the ingest logs cannot be kept in order: {error}"))
                return

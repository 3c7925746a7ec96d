"""The streaming query of an ingest, watched: one that ends is started again, or ends the job.

A query goes on from its checkpoint, and what it commits again changes nothing, so starting it
again is always safe. It is given up when it ends a few times in a row without adding a batch. One
that writes what is available now has done its work when it ends in good order.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

from mainstay.connectors.ingest.log import IngestLog
from mainstay.errors import SourceError
from mainstay.spark.ingest.dataframes import Ingest
from mainstay.spark.ingest.writing import start_query

RESTARTS = 3
BACKOFF_S = 1.0


class IngestQuery:
    """Keeps the query of one streaming DataFrame running, on a thread of its own."""

    def __init__(self, ingest: Ingest, tasks: int, failed: Callable[[Exception], None]) -> None:
        self._ingest = ingest
        self._tasks = tasks
        self._failed = failed
        self._log = IngestLog(ingest.source.storage, ingest.uid)
        self._query: Any = None
        self._starting = threading.Lock()
        self._closing = threading.Event()
        self.is_done = threading.Event()
        """Set when all that was available is in the log."""
        name = f"mainstay-ingest-{ingest.uid}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the query for good. What it has committed stays in the log."""
        self._closing.set()
        with self._starting:
            query = self._query
        if query is not None:
            try:
                query.stop()
            except Exception as error:
                warnings.warn(
                    f"the Spark query that ingests {self._ingest.uid!r} could not be stopped: "
                    f"{cause(error)}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self._thread.join()

    def _run(self) -> None:
        try:
            self._keep_running()
        except Exception as error:
            self._failed(SourceError(f"the ingest of {self._ingest.uid!r} failed: {error}"))

    def _keep_running(self) -> None:
        failures = 0
        while not self._closing.is_set():
            before = self._log.batches()[-1:]
            reason = self._run_once()
            if self._closing.is_set():
                return
            if reason is None and self._ingest.available_now:
                self.is_done.set()
                return
            failures = failures + 1 if self._log.batches()[-1:] == before else 1
            if failures > RESTARTS:
                raise SourceError(
                    f"its Spark query ended {failures} times in a row without adding a batch, the "
                    f"last time because {reason or 'it was stopped'}"
                )
            self._closing.wait(BACKOFF_S * failures)

    def _run_once(self) -> str | None:
        """Run the query until it ends, and say why it did; None if it ended in good order."""
        try:
            with self._starting:
                if self._closing.is_set():
                    return "the job ends"
                self._query = start_query(self._ingest, self._tasks)
            self._query.awaitTermination()
            return None
        except Exception as error:
            return cause(error)


def cause(error: Exception) -> str:
    """What an error of Spark comes down to: an error of ours inside it, or its first message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("mainstay.errors.")]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return [*own[-1:], *told, type(error).__name__][0]

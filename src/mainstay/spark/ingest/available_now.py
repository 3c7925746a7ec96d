"""A job that reads what is available now, and stops by itself.

When the queries of its DataFrames have ended, their logs hold all there is. The job is stopped once
an epoch is behind all of that, and timers that are due by then have fired. It is no end of input:
event time stays where it is, so that the next start goes on as if there had been no stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mainstay.connectors.ingest.log import IngestLog
from mainstay.connectors.ingest.retention import is_read
from mainstay.errors import (
    GraphError,
    JobFailedError,
    JobOverError,
    NotLeadingError,
    SourceError,
)
from mainstay.runtime.coordinator.splits import unfinished_splits
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.storage import NotFound
from mainstay.spark.ingest.dataframes import Ingest
from mainstay.spark.ingest.ingests import Ingesting

if TYPE_CHECKING:
    from mainstay.drive.handle import JobHandle

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
"""How long is waited between two epochs that are taken to see whether all is read."""
QUIET_S = 1.0
"""How long nothing may have happened; workers tell what they do twice as often."""
MOST_LOOKS = 10
"""After so many looks the job is stopped though something goes on: timers that set others, say."""


def check_available_now(spec: JobSpec, ingests: Sequence[Ingest]) -> None:
    """Refuse a job that is to stop by itself and reads something else without an end."""
    now = [ingest.uid for ingest in ingests if ingest.available_now]
    endless = [uid for uid, source in spec.sources().items() if not source.bounded]
    for uid in endless:
        if now and uid not in now:
            raise GraphError(
                f"the DataFrame of {now[0]!r} is read with available_now=True, and source {uid!r} "
                "has no end, so the job would not come to one. Give that one an end as well, or "
                "leave available_now out."
            )


class AvailableNow:
    """Stops a job, from a thread of its own, where its DataFrames are read as available now."""

    def __init__(
        self,
        job: JobHandle,
        spec: JobSpec,
        ingesting: Ingesting,
        ingests: Sequence[Ingest],
        failed: Callable[[Exception], None],
    ) -> None:
        self._job = job
        self._ingesting = ingesting
        self._ingests = ingests
        self._storage = ingests[0].source.storage
        taken = {ingest.uid for ingest in ingests}
        self._others = [uid for uid in spec.sources() if uid not in taken]
        self._failed = failed

    def start(self) -> None:
        if any(ingest.available_now for ingest in self._ingests):
            threading.Thread(target=self._run, name="mainstay-available-now", daemon=True).start()

    def _run(self) -> None:
        try:
            if self._await(lambda: self._ingesting.is_written) and self._await(self._is_read):
                self._await_quiet()
                self._await(self._is_stopped)
        except JobOverError:
            return  # Somebody else has ended it.
        except Exception as error:
            self._failed(SourceError(f"the job could not stop by itself: {error}"))

    def _await(self, is_so: Callable[[], bool]) -> bool:
        """Look at something until it is so; False if the job ends before."""
        pause_s = SHORTEST_PAUSE_S
        while not is_so():
            if self._ingesting.pause(pause_s):
                return False
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return True

    def _is_read(self) -> bool:
        """Whether an epoch that is taken now is behind all rows."""
        try:
            self._job.snapshot()
            latest = read_history(self._storage).latest_epoch
            if latest is None:
                return False
            manifest = read_manifest(self._storage, latest.manifest)
        except (NotLeadingError, NotFound):
            return False  # It is starting still, or has taken another epoch meanwhile.
        logs = [IngestLog(self._storage, ingest.uid) for ingest in self._ingests]
        is_all = all(is_read(manifest, log) for log in logs)
        return is_all and all(_has_ended(manifest, uid) for uid in self._others)

    def _await_quiet(self) -> None:
        """Let watermarks and timers that are due come to their end."""
        before: Any = None
        for _ in range(MOST_LOOKS):
            now = self._activity()
            if now == before or self._ingesting.pause(QUIET_S):
                return
            before = now

    def _activity(self) -> Any:
        return {
            task: (figures.rows, figures.watermark_us, figures.counts, figures.timers)
            for task, figures in self._job.metrics().items()
        }

    def _is_stopped(self) -> bool:
        try:
            self._job.stop()
        except JobOverError:
            raise
        except JobFailedError:
            return False  # It is being rescaled, say: it can be stopped afterwards.
        return True


def _has_ended(manifest: Manifest, uid: str) -> bool:
    """Whether a source that has an end was read up to it."""
    notes, operator = manifest.sources.get(uid), manifest.operators.get(uid)
    if operator is None or not notes or not notes["complete"]:
        return False
    return not any(unfinished_splits(part) for part in operator.subtasks)

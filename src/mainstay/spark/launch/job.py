"""A job on Spark with the ingests of its DataFrames: they begin before it and end after it."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.drive.remote_job import Launcher, RemoteJob
from mainstay.drive.scaling import Scaling
from mainstay.runtime.options import JobOptions
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import EpochStatus
from mainstay.spark.ingest.available_now import AvailableNow
from mainstay.spark.ingest.dataframes import Ingest
from mainstay.spark.ingest.ingests import Ingesting
from mainstay.spark.launch.cluster import Cluster


class IngestingJob(RemoteJob):
    """A job that reads DataFrames. An ingest that cannot go on ends it with a ``SourceError``."""

    def __init__(
        self,
        name: str,
        spec: JobSpec,
        options: JobOptions,
        storage: str,
        launcher: Launcher,
        ingests: Sequence[Ingest],
        cluster: Cluster,
        ingest_tasks: int,
        scaling: Scaling | None = None,
    ) -> None:
        def failed(error: Exception) -> None:
            self.post(lambda: self._fail(error))

        self._ingesting = Ingesting(ingests, cluster, ingest_tasks, self._last_epoch, failed)
        self._ending = AvailableNow(self, spec, self._ingesting, ingests, failed)
        super().__init__(name, spec, options, storage, launcher, scaling=scaling)

    def cancel(self) -> None:
        """End the job. The last complete epoch can be restored."""
        try:
            self._ingesting.cancel()
        finally:
            super().cancel()

    def _loop(self) -> None:
        try:
            self._ingesting.begin()
        except Exception as error:
            # What is broken by being cancelled is no failure: the loop below hears of the cancel.
            if not self._ingesting.is_closing:
                self._fail(error)
                return
        self._ending.start()
        super()._loop()

    def _close(self) -> None:
        try:
            self._ingesting.end()
        finally:
            super()._close()

    def _last_epoch(self) -> int | None:
        complete = (record for record in self.snapshots() if record.status == EpochStatus.COMPLETE)
        return max((record.epoch for record in complete), default=None)

    def _fail(self, error: Exception) -> None:
        """End the job on account of something outside its attempts."""
        self._leadership.fail(self._launcher.gone() or error)

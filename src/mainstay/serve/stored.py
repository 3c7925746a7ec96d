"""The view of a job by its snapshot directory alone: it has ended, or runs elsewhere."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import NoReturn

import mainstay
from mainstay.errors import DamagedFileError, QueryError, RestoreError
from mainstay.inspect.answers import Answer
from mainstay.inspect.connection import is_live
from mainstay.inspect.survey import Directory, survey
from mainstay.inspect.survey_condition import condition_of
from mainstay.masking import masked
from mainstay.runtime.coordinator.epoch_history import past_epochs
from mainstay.runtime.failure_record import FailureRecord
from mainstay.serve import past
from mainstay.serve.committed import CommittedState
from mainstay.serve.documents import (
    AttemptDocument,
    EpochDetail,
    EpochDocument,
    FailureDocument,
    GraphDocument,
    HealthDocument,
    JobDocument,
    RecoveryDocument,
    TasksDocument,
    TimelineEntry,
)
from mainstay.serve.health import OFFLINE
from mainstay.serve.output import OutputDocument
from mainstay.serve.refusals import RefusedError
from mainstay.serve.requests import QueryRequest
from mainstay.serve.shape import stored_graph
from mainstay.serve.stored_verdict import stored_verdict
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.failures import read_failures, with_end
from mainstay.snapshot.graphs import Graph, read_graph
from mainstay.snapshot.history import Ended
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.object_storage import open_existing

_log = logging.getLogger("mainstay")

NO_JOB = "this shows a snapshot directory, and no job runs here."
ELSEWHERE = "A job that runs elsewhere is asked at its own address."
FRESH_S = 1.0
"""For so long what was found is not looked for again."""
LONGEST_S = 15.0
"""After this time everything is read again, also what the log says nothing of."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the directory held when it was last read."""

    directory: Directory
    epochs: list[EpochDetail]
    failures: list[FailureDocument]
    graph: Graph | None
    read_at: float


class StoredView(CommittedState):
    """Reads the directory when it is asked, as often as the log has grown."""

    is_live = False

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._storage = open_existing(place)
        self._reading = threading.Lock()
        self._found: _Found | None = None
        self._looked_at = 0.0
        self._look()

    # ------------------------------------------------------------ reading

    def _look(self) -> _Found:
        with self._reading:
            now, found = time.monotonic(), self._found
            if found is not None and now - self._looked_at < FRESH_S:
                return found
            if found is None or now - found.read_at > LONGEST_S or self._has_grown(found):
                found = self._read(now)
            self._found, self._looked_at = found, now
            return found

    def _has_grown(self, found: _Found) -> bool:
        slot = found.directory.history.next_slot
        return read_history(self._storage).next_slot != slot

    def _read(self, now: float) -> _Found:
        directory = survey(self._storage)
        if directory is None:
            raise RestoreError(
                f"there are no snapshots at {masked(self._place)!r}: it holds no commit log "
                "(log/). Name the directory that was given to Snapshots(...)."
            )
        kept = {each.epoch for each in directory.epochs}
        epochs = [past.epoch_of(each, kept) for each in past_epochs(self._storage)]
        stored = with_end(read_failures(self._storage), directory.history.ended)
        failures = [past.failure_of(FailureRecord.known(each)) for each in stored]
        return _Found(directory, epochs, failures, self._read_graph(), now)

    def _read_graph(self) -> Graph | None:
        try:
            return read_graph(self._storage)
        except DamagedFileError as error:
            # Nothing depends on it, and the rest of the directory can be shown.
            _log.warning("%s", error)
            return None

    @property
    def _manifest(self) -> Manifest | None:
        """That of the latest epoch, where it can be read."""
        latest = [each for each in self._look().directory.epochs if each.is_latest]
        return latest[0].manifest if latest else None

    # ------------------------------------------------------------ now

    def now(self) -> tuple[JobDocument, TasksDocument]:
        return self.job(), self.tasks()

    def job(self) -> JobDocument:
        directory, manifest = self._look().directory, self._manifest
        begin, latest = directory.begin, directory.history.latest_epoch
        now = time.time()
        condition = condition_of(directory, now)
        operators = [] if manifest is None else list(manifest.operators.values())
        return JobDocument(
            at=now,
            name=begin.job,
            status=condition.state,
            status_since_at=condition.at,
            is_live=False,
            role=OFFLINE.role,
            parallelism=max((each.parallelism for each in operators), default=None),
            asked_parallelism=None,
            max_parallelism=begin.max_parallelism,
            leader="",
            attempt=begin.attempt,
            started_at=self._started_at(directory),
            snapshot_place=masked(self._place),
            version=mainstay.__version__,
            epoch=None if latest is None else latest.epoch,
            last_epoch_at=self._last_epoch_at(manifest),
            epoch_every_s=None,
            rows_in=None,
            rows_in_per_s=None,
            rows_out_per_s=None,
            verdict=stored_verdict(condition, latest.epoch if latest else None, directory),
        )

    def _last_epoch_at(self, manifest: Manifest | None) -> float | None:
        """When it was complete; where its figures are lost, when it was begun."""
        last = [each for each in self._look().epochs if each.status == "complete"][-1:]
        if last and last[0].begun_at is not None:
            return last[0].begun_at + (last[0].duration_s or 0.0)
        return None if manifest is None else manifest.created_at

    def _started_at(self, directory: Directory) -> float | None:
        """When the first attempt of the last leader began: each start of a job has another."""
        leader = directory.begin.leader
        own = [each for each in directory.attempts() if each.begin.leader == leader]
        return own[0].begun_at if own else None

    def health(self) -> HealthDocument:
        return OFFLINE

    def graph(self) -> GraphDocument:
        return stored_graph(self._look().graph, self._manifest)

    def tasks(self) -> TasksDocument:
        return TasksDocument(is_live=False, attempt=None, tasks=[])

    # ------------------------------------------------------------ what has happened

    def epochs(self, limit: int, before: int | None = None) -> list[EpochDocument]:
        return [past.brief(each) for each in past.newest(self._look().epochs, limit, before)]

    def kept_epochs(self) -> list[int]:
        return [each.epoch for each in self._look().directory.epochs]

    def epoch(self, number: int) -> EpochDetail:
        return past.found_epoch(self._look().epochs, number)

    def attempts(self) -> list[AttemptDocument]:
        return past.attempts_of(self._look().directory.history, self._ended())

    def _ended(self) -> Ended | None:
        directory = self._look().directory
        return past.end_of(directory.history, condition_of(directory, time.time()).at)

    def recoveries(self) -> list[RecoveryDocument]:
        return []  # the times of a recovery are the driver's own

    def failures(self) -> list[FailureDocument]:
        return self._look().failures

    def timeline(self) -> list[TimelineEntry]:
        found = self._look()
        kept = ((each.epoch, each.manifest) for each in found.directory.epochs)
        times = {epoch: manifest.created_at for epoch, manifest in kept if manifest is not None}
        for each in found.epochs:
            if each.begun_at is not None:
                times.setdefault(each.epoch, each.begun_at + (each.duration_s or 0.0))
        history = found.directory.history
        parts = (self.attempts(), self.recoveries(), found.failures)
        return past.timeline_of(history, self._ended(), *parts, times)

    def output(self, limit: int, attempt: int | None = None) -> OutputDocument:
        return OutputDocument(lines=[], left_out=0)  # lines are kept by the driver alone

    # ------------------------------------------------------------ what needs a running job

    def query(self, request: QueryRequest, most: int) -> dict[str, Answer]:
        if is_live(request.at, request.epoch, request.after):
            raise QueryError(f'{NO_JOB} Ask with "at": "committed". {ELSEWHERE}')
        return super().query(request, most)

    def savepoint(self, path: str, timeout_s: float) -> str:
        self._refuse("A savepoint is written by a running job.")

    def stop(self, path: str | None, *, drain: bool, timeout_s: float) -> str | None:
        self._refuse("There is nothing to stop.")

    def rescale(self, parallelism: int, timeout_s: float) -> None:
        self._refuse("Start it with another parallelism and restore='latest'.")

    def cancel(self, timeout_s: float) -> None:
        self._refuse("There is nothing to cancel.")

    def _refuse(self, remedy: str) -> NoReturn:
        raise RefusedError(
            409,
            "conflict",
            f"{NO_JOB} {remedy} {ELSEWHERE}",
        )

"""The execution of a job on a cluster, one attempt at a time: each is begun, launched and ended.

An attempt begins in the log: winning the slot of its ``Begin`` fixes its number and what it starts
from. Only then are workers launched for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mainstay.errors import QueryError
from mainstay.runtime.coordinator.attempt import Owner, RunningAttempt
from mainstay.runtime.coordinator.chronicle import Chronicle
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.cluster import Cluster
from mainstay.runtime.coordinator.epochs import PendingEpoch
from mainstay.runtime.coordinator.housekeeping import Housekeeping
from mainstay.runtime.coordinator.queries import Question, Told
from mainstay.runtime.coordinator.requests import Requests
from mainstay.runtime.coordinator.slowness import Silent
from mainstay.runtime.coordinator.starting import Start
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt, Epoch, Release, TaskMetrics
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem
from mainstay.snapshot.history import Begin
from mainstay.snapshot.manifest import FileRef, Manifest


class Execution:
    """The attempt that runs, or was the last to, and its workers."""

    def __init__(
        self,
        options: JobOptions,
        ports: Ports,
        cluster: Cluster,
        claims: Claims,
        chronicle: Chronicle,
        requests: Requests,
    ) -> None:
        self.attempt: RunningAttempt | None = None
        self._options = options
        self._ports = ports
        self._cluster = cluster
        self._claims = claims
        self._chronicle = chronicle
        self._requests = requests
        self._housekeeping = Housekeeping(ports, options.snapshots.retain)

    # ------------------------------------------------------------ the beginning

    def begin(
        self,
        start: Start,
        leader: str,
        won: Callable[[Begin], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Claim the slot of the next attempt."""
        self._claims.history = start.history
        used = self.attempt.book.next_epoch if self.attempt is not None else 1
        begin = start.begin(leader, self._options, used, self._ports.clock.wall())
        self._claims.claim(begin, lambda: won(begin), failed)

    def launch(self, begin: Begin, start: Start, job: JobSpec, owner: Owner) -> None:
        """The slot is won: start the workers of the attempt."""
        number = Attempt(begin.attempt)
        self._chronicle.begun(number, begin.restored_from, start.plan.report)
        options = replace(self._options, lineage=begin.lineage)
        self.attempt = RunningAttempt(
            number,
            Epoch(begin.next_epoch),
            job,
            options,
            self._ports,
            self._claims,
            start.manifest,
            self._chronicle.epochs,
            owner,
            plan_again=not start.is_planned_since(self._chronicle.attempts[0].attempt),
        )
        is_held = self._requests.begun(self.attempt, start.manifest)
        pinned = self._requests.savepoints.pinned()
        self._housekeeping.sweep(number, self._claims.history, pinned)
        deployment = Deployment(
            job,
            number,
            begin.lineage,
            start.plan.states,
            options.tuning,
            start.since,
            options.snapshots.retain,
            is_held,
            self._claims.landmark,
        )
        self._cluster.launch(deployment)

    # ------------------------------------------------------------ the course

    def tick(self, now: float) -> None:
        if self.attempt is not None:
            self.attempt.tick(now, self._requests.wishes())

    def deadline(self) -> float | None:
        if self.attempt is None:
            return None
        return self.attempt.deadline(self._requests.wishes())

    def committed(self, place: FileRef, manifest: Manifest) -> None:
        """An epoch of the attempt is in the log: delete what only older ones needed."""
        assert self.attempt is not None
        pending, pinned = self.attempt.book.pending_files(), self._requests.savepoints.pinned()
        self._housekeeping.committed(place, manifest, pending, pinned)

    def has_progressed(self, manifest: Manifest) -> bool:
        """Whether an epoch has rows that the one before the attempt did not have."""
        return self.attempt is not None and self.attempt.has_progressed(manifest)

    # ------------------------------------------------------------ what people ask

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask of the current attempt last reported."""
        return self.attempt.metrics if self.attempt is not None else {}

    def earlier_metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each had reported some seconds ago, so that there are rates."""
        return self.attempt.earlier_metrics if self.attempt is not None else {}

    def report_ages(self) -> dict[tuple[str, int], float]:
        """How long ago each has reported; by any thread."""
        return self.attempt.report_ages() if self.attempt is not None else {}

    def pending(self) -> list[PendingEpoch]:
        """The epochs that are under way; by any thread."""
        return [] if self.attempt is None else list(self.attempt.book.pending.values())

    def problems(self) -> list[Problem]:
        """What the job waits for just now, and goes on by itself once that is over."""
        if self.attempt is None:
            return []
        return self.attempt.problems(self._ports.clock.monotonic())

    def silent(self) -> list[Silent]:
        """The operators of the current attempt that emitted nothing for the rows they took."""
        return self.attempt.silent() if self.attempt is not None else []

    def ask(self, question: Question, tell: Told) -> None:
        """Ask for live state, of which there is some while an attempt runs."""
        if self.attempt is None or not self.attempt.is_running():
            tell(
                QueryError(
                    f"job {self._options.name!r} is not running just now, so there is no live "
                    "state. Ask again, or ask for what is committed with at='committed'."
                )
            )
        else:
            self.attempt.ask(question, tell)

    # ------------------------------------------------------------ the end

    def hurry(self) -> None:
        """Wait no longer for an attempt that has ended but for the closing of functions."""
        if self.attempt is not None:
            self.attempt.hurry()

    def stop(self, reason: str, *, is_released: bool = True) -> None:
        """End the attempt, if it is not over; ``is_released``: its workers are told so as well."""
        if self.attempt is not None and not self.attempt.is_over:
            if is_released:
                self.attempt.send_all(Release(self.attempt.number, in_good_order=False))
            self.attempt.end(reason)
            self._cluster.end(self.attempt.number)
        self._chronicle.attempt_ended(reason)

    def give_back(self, reason: str) -> None:
        """The attempt is over: end its workers."""
        assert self.attempt is not None
        self._cluster.end(self.attempt.number)
        self._chronicle.attempt_ended(reason)

    def check_invariants(self) -> None:
        if self.attempt is None:
            return
        self.attempt.check_invariants()
        begin = self._claims.history.last_begin
        assert begin is not None, "an attempt runs without its begin"
        assert begin.attempt >= self.attempt.number, "an attempt runs before its begin"

"""Fitting: with how many workers a job is started where there is no room for all that it asks for.

A job that may run with fewer (``min_parallelism``) waits a while for room, because what was lost
may be replaced soon, and is then started with as many workers as there is room for. When there is
room for more, and has been for a time, it is rescaled. That time becomes longer with each such
rescale, so that a host that comes and goes does not take the job with it.

::

    an attempt is due ── room for all ──▶ as many as it asks for
           │                                    ▲
           └─ too little for WAIT_S ──▶ as many as fit ── room for more, for a time ─┘ rescaled
"""

from __future__ import annotations

from collections.abc import Callable

from mainstay.runtime.coordinator.cluster import Cluster
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem, Status

LOOK_S = 1.0
"""How often it is looked how much room there is, while that matters."""
WAIT_S = 10.0
"""How long room for all workers is waited for."""
CALM_S = 20.0
MOST_CALM_S = 600.0
"""How long there must have been room for more workers: at first, and at most."""

Go = Callable[[JobSpec], None]


class Fitting:
    """What a job asks for, and what it is given. ``grow`` is called with the plan to rescale to."""

    def __init__(
        self,
        job: JobSpec,
        ports: Ports,
        cluster: Cluster,
        grow: Go,
        least: int | None = None,
        plan_at: Callable[[int], JobSpec] | None = None,
    ) -> None:
        self.asked = job
        """The job at the parallelism that its user asks for."""
        self._ports = ports
        self._cluster = cluster
        self._grow = grow
        self._plans = _Plans(least, plan_at)
        self._given = job
        self._grown: JobSpec | None = None
        self._status = Status.STARTING
        self._go: Go | None = None
        self._go_at = 0.0
        self._look_at: float | None = None
        self._is_looking = False
        self._room: int | None = None
        self._short_since: float | None = None
        self._more_since: float | None = None
        self._calm_s = CALM_S

    # ------------------------------------------------------------ an attempt is due

    def fit(self, go: Go) -> None:
        """Call ``go`` with the plan of the next attempt, now or after waiting for room."""
        now = self._ports.clock.monotonic()
        self._more_since = None
        if not self._cluster.counts_room:
            self._give(self.asked, go)
            return
        if not self._plans.are_several:
            self._look_at = now + LOOK_S
            self._give(self.asked, go)
            return
        self._look_at, self._go, self._go_at = now, go, now + WAIT_S
        self.tick(now, Status.STARTING)

    def _give(self, job: JobSpec, go: Go) -> None:
        self._go = None
        self._given = job
        go(job)

    def took(self, job: JobSpec) -> None:
        """An attempt has been begun with a plan, which another leader may have had before."""
        self._given = job
        if not self._plans.are_several or job.workers > self.asked.workers:
            self.asked = job

    def rescaled(self, job: JobSpec) -> None:
        """The attempt has halted to go on with a plan: one that the user asks for, or our own."""
        if job is not self._grown:
            self.asked = job
        self._grown = None

    # ------------------------------------------------------------ time passes

    def tick(self, now: float, status: Status) -> None:
        self._status = status
        if self._look_at is None:
            return  # this is called often, and what follows counts workers
        if self._go is None and status is Status.RUNNING and not self.is_reduced:
            self._look_at = self._short_since = None
        is_due = self._look_at is not None and now >= self._look_at
        if not is_due or self._is_looking or status.is_final:
            return
        self._is_looking = True
        # Where it cannot be told, nothing is to wait for it: what is wrong, an attempt will say.
        self._ports.background.submit(self._cluster.room, self._seen, lambda _: self._seen(None))

    def deadline(self) -> float | None:
        return None if self._is_looking else self._look_at

    @property
    def is_reduced(self) -> bool:
        """Whether the job was last started with fewer workers than it asks for."""
        return self._given.workers < self.asked.workers

    def _seen(self, room: int | None) -> None:
        """So much room there was; None where that could not be told."""
        now = self._ports.clock.monotonic()
        self._is_looking, self._look_at, self._room = False, now + LOOK_S, room
        is_short = room is not None and room < self.asked.workers
        if not is_short:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        if self._go is not None:
            if not is_short or now >= self._go_at:
                self._give(self._plans.best(self.asked, room), self._go)
        elif self._status is Status.RUNNING and self.is_reduced:
            self._look_for_more(now, room)

    def _look_for_more(self, now: float, room: int | None) -> None:
        best = self._plans.best(self.asked, room)
        if best.workers <= self._given.workers:
            self._more_since = None
        elif self._more_since is None:
            self._more_since = now
        elif now - self._more_since >= self._calm_s:
            self._calm_s = min(self._calm_s * 2, MOST_CALM_S)
            self._more_since = None
            self._grown = best
            self._grow(best)

    # ------------------------------------------------------------ what people ask

    def problems(self, now: float) -> list[Problem]:
        """That there is too little room, with both numbers; by any thread."""
        since, room = self._short_since, self._room
        if since is None or room is None:
            return []
        asked, given = self.asked.workers, self._given.workers
        if self._go is None and given < asked:
            what, why = f"has run with {given} of its {asked} workers", f"there are {room} slots"
        else:
            what = "has waited for slots"
            why = f"it needs {asked}, one for each worker, and there are {room}"
        return [Problem("the job", what, why, now - since)]


class _Plans:
    """A job at the parallelisms that it may be run at, from the least on."""

    def __init__(self, least: int | None, plan_at: Callable[[int], JobSpec] | None) -> None:
        self._least = least
        self._plan_at = plan_at
        self._made: dict[int, JobSpec] = {}

    @property
    def are_several(self) -> bool:
        return self._least is not None and self._plan_at is not None

    def best(self, asked: JobSpec, room: int | None) -> JobSpec:
        """The plan with the most workers that there is room for, or else with the fewest."""
        if room is None or asked.workers <= room or self._least is None:
            return asked
        best = self._at(self._least)
        for parallelism in range(self._least + 1, asked.workers + 1):
            plan = self._at(parallelism)
            if plan.workers > room or plan.workers >= asked.workers:
                break
            best = plan
        return best if best.workers < asked.workers else asked

    def _at(self, parallelism: int) -> JobSpec:
        if parallelism not in self._made:
            assert self._plan_at is not None
            self._made[parallelism] = self._plan_at(parallelism)
        return self._made[parallelism]

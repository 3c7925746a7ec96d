"""What users ask of a simulated job: savepoints, rescales, a stop, at steps that a seed decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.spec import JobSpec
from mainstay.testing.settings import SimulationSettings


class UserRequests:
    """Asks the leader of the moment for what is due. ``job`` is the one last rescaled to."""

    def __init__(
        self,
        job: JobSpec,
        settings: SimulationSettings,
        places: Mapping[str, Any],
        plan_at: Callable[[int], JobSpec] | None,
        note: Callable[[str], None],
    ) -> None:
        self.job = job
        self.savepoints: list[str] = []
        """The savepoints that were finished, oldest first."""
        self.last_stop: str | None = None
        """The savepoint that the job was stopped with."""
        self.refusals: list[str] = []
        """Why requests were not done."""
        self._settings = settings
        self._places = places
        self._plan_at = plan_at
        self._note = note
        # By a source of chance of their own, so that they change nothing else about a seed.
        chance = Random(f"requests-{settings.seed}")
        horizon = settings.crash_within_steps
        asked: list[int | None] = [None] * settings.savepoints + list(settings.rescales)
        self._due = sorted(((chance.randrange(horizon), n) for n in asked), key=str)
        self._places_asked = 0
        self._stop_asked_of: Coordinator | None = None

    def ask_if_due(self, steps: int, leader: Coordinator) -> None:
        """Ask for what a user might ask for just now."""
        while self._due and steps >= self._due[0][0]:
            _, parallelism = self._due.pop(0)
            if parallelism is None:
                self._ask_for_savepoint(leader)
            elif self._plan_at is not None:
                self._note(f"rescale to {parallelism}")
                self.job = self._plan_at(parallelism)
                leader.rescale(self.job, self._answered("rescale"))
        due = self._settings.stop_at_step
        # A leader that was asked may be gone: then its successor is asked.
        if due is not None and steps >= due and self._stop_asked_of is not leader:
            self._ask_to_stop(leader)

    def _ask_to_stop(self, leader: Coordinator) -> None:
        self._stop_asked_of = leader
        path = self._new_place() if self._settings.stop_with_savepoint else None
        self._note(f"stop with {path}")
        self.last_stop = None
        leader.stop(path, self._answered("stop", path), drain=self._settings.drain)

    def _ask_for_savepoint(self, leader: Coordinator) -> None:
        path = self._new_place()
        self._note(f"savepoint {path}")
        leader.savepoint(path, self._answered("savepoint", path))

    def _new_place(self) -> str:
        self._places_asked += 1
        return f"savepoint-{len(self._places)}-{self._places_asked}"

    def _answered(self, what: str, path: str | None = None) -> Callable[[Exception | None], None]:
        def done(error: Exception | None) -> None:
            self._note(f"{what} {path}: {error or 'done'}")
            if error is not None:
                self.refusals.append(str(error))
            if error is None and path is not None:
                self.savepoints.append(path)
                self.last_stop = path if what == "stop" else self.last_stop

        return done

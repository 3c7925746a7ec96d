"""The simulation of a job whose input is a script: an element takes effect when all before it have.

Between two elements the job runs until nothing can happen any more. The wall clock stands still but
for the steps of the script. The other clock goes on with each of them by a little, so that an epoch
may fall due beside an element, where epochs are to be taken; and for a restart after a failure.
"""

from __future__ import annotations

from typing import Any

from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.status import Status
from mainstay.runtime.worker.worker import Worker
from mainstay.testing.elements import AdvanceClock, Crash, Snapshot
from mainstay.testing.emissions import Emissions
from mainstay.testing.listed import NothingYetError
from mainstay.testing.processes import Process, SimulatedClock, Work
from mainstay.testing.script import Stage
from mainstay.testing.simulation import Simulation

ELEMENT_S = 0.02
"""How long an element takes at most, by the clock that epochs go by."""


class ScriptedClock(SimulatedClock):
    """The wall clock goes by the script."""

    def __init__(self, start: float) -> None:
        super().__init__(start)
        self._advanced_s = 0.0

    def wall(self) -> float:
        return self.start + self._advanced_s

    def advance(self, by_s: float) -> None:
        self.now += by_s
        self._advanced_s += by_s


class ObservedSimulation(Simulation):
    """A simulation that notes what operators emit."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.emissions = Emissions()
        super().__init__(*arguments, **named)

    def launch(self, deployment: Deployment, leader: Process) -> None:
        self.emissions.begin(deployment.attempt, deployment.since.epoch)
        super().launch(deployment, leader)

    def _launched(self, worker: Worker) -> None:
        self.emissions.watch(worker)


class ScriptedSimulation(ObservedSimulation):
    """One job under one seed, with a script for its input.

    With ``ends=False`` its inputs have no end, and the job is stopped after the last step.
    """

    def __init__(
        self, *arguments: Any, stage: Stage, script_clock: ScriptedClock, ends: bool, **named: Any
    ) -> None:
        self._stage = stage
        self._script_clock = script_clock
        self._ends = ends
        self._held: list[Work] = []
        """Polls of readers whose turn has not come."""
        self._places_asked = 0
        self._wants_snapshot = False
        self._snapshot_asked_of: Coordinator | None = None
        self._stop_asked_of: Coordinator | None = None
        super().__init__(*arguments, script_clock, **named)

    def _work_failed(self, work: Work, error: Exception) -> None:
        if isinstance(error, NothingYetError):
            self._held.append(work)
        else:
            super()._work_failed(work, error)

    def _let_time_pass(self) -> None:
        if not self._is_quiescent:
            super()._let_time_pass()
        elif self._wants_snapshot:
            self._take_snapshot()
        elif not self._stage.is_over:
            self._go_on()
        elif not self._stage.is_ended:
            self._end()
        else:
            # What is left does not go by the script, such as a source of its own pace.
            super()._let_time_pass()

    @property
    def _is_quiescent(self) -> bool:
        """Whether nothing happens before the script goes on, or time does."""
        leader = self.coordinator
        is_busy = self.works or leader.execution.pending() or leader.requests.is_halting
        return leader.status is Status.RUNNING and not is_busy

    def _drift(self) -> None:
        """Time that passed by itself would have one epoch follow the other without an element."""

    # ------------------------------------------------------------ steps

    def _go_on(self) -> None:
        self.clock.now += self.random.random() * ELEMENT_S
        match self._stage.go_on():
            case None:
                self._release()
            case AdvanceClock(by_s):
                self._note(f"the clock moves on by {by_s:g} s")
                self._script_clock.advance(by_s)
                self._wake()
            case Snapshot():
                self._wants_snapshot = True
                self._take_snapshot()
            case Crash():
                self._crash_worker(self._current_workers()[0])

    def _release(self) -> None:
        """Have all readers look whether it is their turn."""
        held, self._held = self._held, []
        self.works += [work for work in held if work.owner.alive]

    def _wake(self) -> None:
        for process in self._workers():
            process.idle = False

    def _end(self) -> None:
        if self._ends:
            self._stage.end_next()
            self._release()
        elif self._stop_asked_of is not self.coordinator:
            self._stop_asked_of = self.coordinator
            # An attempt that follows one which was told to stop reads nothing more.
            self._crashes.clear()
            self.coordinator.stop(None, lambda error: self._note(f"stopped: {error or 'done'}"))

    def _take_snapshot(self) -> None:
        """Have an epoch taken, by asking for a savepoint of it; again if that fails."""
        if self._snapshot_asked_of is self.coordinator:
            super()._let_time_pass()
            return
        self._snapshot_asked_of = self.coordinator
        self._places_asked += 1
        self.coordinator.savepoint(f"snapshot-{self._places_asked}", self._snapshot_taken)

    def _snapshot_taken(self, error: Exception | None) -> None:
        self._note(f"snapshot: {error or 'done'}")
        self._wants_snapshot = error is not None
        self._snapshot_asked_of = None

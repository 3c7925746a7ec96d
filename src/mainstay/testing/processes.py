"""The processes of a simulated job, as the scheduler sees them, and what they have of the world."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt
from mainstay.runtime.ports import COORDINATOR
from mainstay.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from mainstay.testing.simulation import Simulation

Address = tuple[int, int]
"""An attempt and the number of a worker; the coordinator's is (0, COORDINATOR)."""

LEADER: Address = (0, COORDINATOR)


class SimulatedClock:
    """Time passes when the scheduler says so; ``start`` is the wall clock's first reading."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.now = 0.0
        self.start = start

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.start + self.now

    def cpu(self) -> float:
        return self.now


@dataclass(slots=True, eq=False)
class Process:
    """A coordinator or a worker, as the scheduler sees it. A dead one hears nothing."""

    address: Address
    alive: bool = True
    idle: bool = False
    dies_at_step: int | None = None
    worker: Worker | None = None
    hears_late: bool = False
    """Whether it is told at its end that another process leads."""
    coordinator: Coordinator | None = None
    leader: Address = LEADER
    """For a worker: whom it tells what happens."""
    is_deposed: bool = False
    is_in_doubt: bool = False

    @property
    def is_replaced(self) -> bool:
        """Whether it was told that another process leads, or has found out by the log."""
        return self.is_deposed or (self.coordinator is not None and self.coordinator.is_replaced)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Background work of a process: first it is to be run, then its end is to be reported."""

    owner: Process
    run: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class Background:
    simulation: Simulation
    owner: Process

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        if self.owner.alive:
            at = self.simulation.steps + self.simulation.stall()
            self.simulation.works.append(Work(self.owner, work, done, failed, at))


ANSWER_S = 5.0
"""How long a coroutine may take by the real clock; that of the simulation stands still."""
NEVER = object()
"""What comes of a call that does not answer."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls are work in the background: each is made, as a whole, at some later step. One that does
    not answer within ``ANSWER_S`` never does, and its own time-out decides what comes of it."""

    background: Background

    def call(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        *,
        is_async: bool,
    ) -> Callable[[], None]:
        state = {"is_wanted": True}

        def if_wanted(report: Callable[[Any], None]) -> Callable[[Any], None]:
            return lambda said: report(said) if state["is_wanted"] and said is not NEVER else None

        self.background.submit(lambda: _awaited(work()), if_wanted(done), if_wanted(failed))
        return lambda: state.update(is_wanted=False)


def _awaited(result: Any) -> Any:
    """What comes of a result that may be awaited: on an event loop of its own, so that nothing but
    the seed decides what happens when."""
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        answer = asyncio.ensure_future(result)
        ended, _ = await asyncio.wait([answer], timeout=ANSWER_S)
        return answer.result() if ended else NEVER

    return asyncio.run(wait())


@dataclass(slots=True)
class Cluster:
    """Starts and stops simulated workers for the coordinator of the moment."""

    simulation: Simulation
    leader: Process

    @property
    def counts_room(self) -> bool:
        return bool(self.simulation.settings.room)

    def room(self) -> int:
        return self.simulation.room()

    def launch(self, deployment: Deployment) -> None:
        if self.simulation.is_heard(self.leader):
            self.simulation.launch(deployment, self.leader)

    def end(self, attempt: Attempt) -> None:
        if self.simulation.is_heard(self.leader):
            self.simulation.stop(attempt)

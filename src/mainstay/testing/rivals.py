"""Rivals in the simulation: several drivers of one job that all believe to lead it, at once.

There is no election, or one that lies. Every driver has workers of its own and is heard by them.
One that is fenced by the log begins a new term, as long as the seed gives it another one. Drivers
are put into doubt and out of it at any time, and are told that they have lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.ports import COORDINATOR
from mainstay.testing.processes import Address, Process
from mainstay.testing.simulation import Simulation, StuckError


@dataclass(frozen=True, slots=True)
class Rivalry:
    """How many drivers there are, how many terms they have in all, and how often one doubts."""

    drivers: int = 3
    terms: int = 8
    doubts: int = 6


class RivalSimulation(Simulation):
    """One job under one seed, and several leaders that do not know of each other."""

    def __init__(self, *arguments: Any, rivalry: Rivalry, **named: Any) -> None:
        self._chance = Random(f"rivals-{arguments[2].seed}")
        self._active: list[Process] = []
        self._terms_left = rivalry.terms
        self._addresses = 0
        horizon = arguments[2].crash_within_steps
        self._joins = sorted(self._chance.randrange(horizon) for _ in range(rivalry.drivers - 1))
        self._doubts = sorted(self._chance.randrange(horizon) for _ in range(rivalry.doubts))
        self._assured_at: dict[int, int] = {}
        super().__init__(*arguments, **named)

    # ------------------------------------------------------------ who leads

    def _new_address(self) -> Address:
        self._addresses += 1
        return (-self._addresses, COORDINATOR)

    def is_heard(self, leader: Process) -> bool:
        return leader.alive and leader in self._active

    def _leaders(self) -> list[Coordinator]:
        return [each.coordinator for each in self._active if each.coordinator is not None]

    def _start_leader(self, *, succeeds: bool = False) -> None:
        # The first has joined the job like the others, who may begin before it does.
        super()._start_leader(succeeds=True)
        self._active.append(self.leader)

    def _replace_leader(self) -> None:
        self._active.remove(self.leader)
        super()._replace_leader()
        self._processes.pop(self.leader.address, None)

    def _end_workers_some_time(self, random: Random) -> None:
        """Only those whose driver is gone: the others go on."""
        active = {leader.address for leader in self._active}
        for process in self._workers():
            if process.leader not in active and process.dies_at_step is None:
                process.dies_at_step = self.steps + random.randrange(400)

    # ------------------------------------------------------------ the scheduler

    def run(self) -> None:
        while not self._is_settled():
            self.step()
            if self.steps > self.settings.max_steps:
                raise StuckError(f"no end after {self.steps} steps\n{self.story()}")

    def _is_settled(self) -> bool:
        """Whether a driver has come to the end of the job: then it is the end for all."""
        for process in self._active:
            leader = process.coordinator
            if leader is not None and leader.is_done and not leader.is_replaced:
                self.leader, self.coordinator = process, leader
                return True
        return False

    def step(self) -> None:
        super().step()
        if self._joins and self.steps >= self._joins[0]:
            self._joins.pop(0)
            self._note("another driver believes to lead")
            self._start_leader(succeeds=True)
        self._doubt_if_due()
        for process in [each for each in self._active if _is_replaced(each)]:
            self._stand_again(process)
        self._follow_newest()

    def _stand_again(self, process: Process) -> None:
        """A driver that was fenced, or told that it has lost, begins another term or leaves."""
        self._active.remove(process)
        self._processes.pop(process.address, None)
        process.is_deposed = True
        if self._terms_left > 0 or not self._active:
            self._terms_left -= 1
            self._note("a driver begins another term")
            self._start_leader(succeeds=True)

    def _follow_newest(self) -> None:
        """What users ask is asked of the driver that began last."""

        def begun(process: Process) -> int:
            leader = process.coordinator
            return leader.attempts[-1].attempt if leader is not None and leader.attempts else 0

        if self._active:
            self.leader = max(self._active, key=begun)
            assert self.leader.coordinator is not None
            self.coordinator = self.leader.coordinator

    def _doubt_if_due(self) -> None:
        for process in self._active:
            if self.steps >= self._assured_at.get(id(process), self.steps + 1):
                del self._assured_at[id(process)]
                self._assure(process)
        if self._doubts and self.steps >= self._doubts[0] and self._active:
            self._doubts.pop(0)
            process = self._chance.choice(self._active)
            if id(process) not in self._assured_at:
                self._note(f"driver {process.address} is in doubt")
                process.is_in_doubt = True
                self._assured_at[id(process)] = self.steps + self._chance.randrange(300)
                assert process.coordinator is not None
                process.coordinator.doubt(True)

    def _let_time_pass(self) -> None:
        """Where everything waits for a doubt to end, it ends."""
        doubting = [each for each in self._active if each.is_in_doubt]
        if doubting and not self.works:
            self._assured_at.pop(id(doubting[0]))
            self._assure(doubting[0])
        else:
            super()._let_time_pass()

    def _assure(self, process: Process) -> None:
        assert process.coordinator is not None
        process.is_in_doubt = False
        if self._chance.random() < 0.3:
            self._note(f"driver {process.address} has lost")
            process.coordinator.depose()
            process.is_deposed = process.coordinator.is_replaced
        else:
            process.coordinator.doubt(False)


def _is_replaced(process: Process) -> bool:
    return process.coordinator is not None and process.coordinator.is_replaced

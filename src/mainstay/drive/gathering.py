"""The processes of an attempt, as they come in and say hello, and the workers that they become."""

from __future__ import annotations

from dataclasses import dataclass, field

from mainstay.drive.shipment import Shipment
from mainstay.runtime.coordinator.silence import Listening, Sighting
from mainstay.runtime.coordinator.worker_numbers import hand_out
from mainstay.runtime.messages import Attempt
from mainstay.transport.hub import Hello, Welcome
from mainstay.transport.links import Peer

_SHOWN = 10
"""How many processes a message names."""


@dataclass(slots=True)
class Gathering:
    """Processes have the numbers that they were started with; workers those they were given here.

    Nobody is a worker before all have come in.
    """

    attempt: Attempt
    workers: int
    shipment: Shipment
    started: float
    listening: Listening
    hellos: dict[int, Hello] = field(default_factory=dict)
    """By process."""
    processes: dict[int, int] = field(default_factory=dict)
    """The process of each worker."""
    _numbers: dict[int, int] = field(default_factory=dict)
    _heard: dict[int, float] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return bool(self.processes)

    def takes(self, hello: Hello) -> bool:
        """Whether it is one of the processes that were started, and comes for the first time."""
        if hello.process in self.hellos or not 0 <= hello.process < self.workers:
            return False
        self.hellos[hello.process] = hello
        return True

    def welcomes(self, now: float) -> dict[int, Welcome]:
        """Once all have come in: what each process is told."""
        if len(self.hellos) < self.workers:
            return {}
        self._numbers = hand_out({at: hello.held_bytes for at, hello in self.hellos.items()})
        self.processes = {worker: process for process, worker in self._numbers.items()}
        self._heard = dict.fromkeys(self.hellos, now)
        peers = self._peers()
        return {process: self._welcome(worker, peers) for process, worker in self._numbers.items()}

    def _welcome(self, worker: int, peers: dict[int, Peer]) -> Welcome:
        shared, part = self.shipment.shared, self.shipment.part(worker)
        return Welcome(self.attempt, worker, shared, part, peers)

    def _peers(self) -> dict[int, Peer]:
        return {worker: self.hellos[process].peer for worker, process in self.processes.items()}

    def places(self) -> dict[int, tuple[str, int]]:
        """The host and the process id of every worker."""
        found = {worker: self.hellos[process] for worker, process in self.processes.items()}
        return {worker: (hello.host, hello.pid) for worker, hello in sorted(found.items())}

    def worker(self, process: int) -> int | None:
        """The worker that a process has become; None before it is one."""
        return self._numbers.get(process)

    def heard(self, process: int, now: float) -> None:
        """There was a sign of life."""
        if process in self._numbers:
            self._heard[process] = now

    def sightings(self) -> list[Sighting]:
        """When each worker was last heard of."""
        return [
            Sighting(self._numbers[process], self.hellos[process].host, at)
            for process, at in self._heard.items()
        ]

    def absence(self, waited_s: float, address: str) -> str:
        """How many have not come, who has and from where, and what may be the cause."""
        came = sorted((process, hello.host) for process, hello in self.hellos.items())
        shown = ", ".join(f"process {process} from {host}" for process, host in came[:_SHOWN])
        more = f" and {len(came) - _SHOWN} more" if len(came) > _SHOWN else ""
        return (
            f"{self.workers - len(came)} of {self.workers} workers did not come in within "
            f"{waited_s} s ({'these came: ' + shown if came else 'none came'}{more}). There must "
            "be a free slot for each: end other jobs, or add executors or cores. And each must "
            f"reach the coordinator at {address}: if executors know this machine by another name "
            "or address, say it with Environment(coordinator_host=...)"
        )

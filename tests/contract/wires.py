"""How what a channel sends gets to its other end: the wires that the contract is run over.

A further wire is a further class in ``WIRES``. An end is anything with ``receive(message)``; the
first is the sender's, the second the receiver's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any, Protocol

import pyarrow as pa

from mainstay.drive import embedded
from mainstay.drive.embedded import EmbeddedJob
from mainstay.runtime.messages import Attempt
from mainstay.testing.processes import Process
from mainstay.testing.simulation import Simulation
from mainstay.transport.keys import AttemptKeys, KeyPair
from tests.transport import PATIENCE_S, Party, link_up

ONE = Attempt(1)


class End(Protocol):
    """One side of a channel."""

    released: bool

    def receive(self, message: Any) -> None: ...

    def step(self) -> bool: ...


class Wire(Protocol):
    """Carries messages between two ends, numbered 0 and 1."""

    def send(self, to: int, message: Any) -> None: ...

    def deliver(self) -> None:
        """Hand over some of what is under way; there is something."""


class SameWorker:
    """Both ends are on one worker: a call."""

    def __init__(self, ends: list[End], schema: pa.Schema, closing: ExitStack) -> None:
        self._ends = ends

    def send(self, to: int, message: Any) -> None:
        self._ends[to].receive(message)

    def deliver(self) -> None:
        raise AssertionError("nothing is ever under way")


class Mailboxes:
    """Two workers of a job that runs in one process."""

    def __init__(self, ends: list[End], schema: pa.Schema, closing: ExitStack) -> None:
        self._job = object.__new__(EmbeddedJob)
        self._job._processes = {
            (ONE, number): embedded._Process(end, None)  # type: ignore[arg-type]
            for number, end in enumerate(ends)
        }

    def send(self, to: int, message: Any) -> None:
        self._job._send(to, message)

    def deliver(self) -> None:
        for address, process in self._job._processes.items():
            assert isinstance(self._job._step(address, process), bool)


class Simulated:
    """Two workers of a simulated job: links are served by chance, each in its order."""

    def __init__(self, ends: list[End], schema: pa.Schema, closing: ExitStack) -> None:
        self._job = job = object.__new__(Simulation)
        job.random = Random(7)
        job._links = {}
        job._faulty = job.leader = job.clock = None  # type: ignore[assignment]
        processes = [
            Process((ONE, number), worker=end)  # type: ignore[arg-type]
            for number, end in enumerate(ends)
        ]
        job._processes = {process.address: process for process in processes}
        self._ports = [job._ports(process) for process in processes]

    def send(self, to: int, message: Any) -> None:
        self._ports[1 - to].send(to, message)

    def deliver(self) -> None:
        self._job._deliver()


class Sockets:
    """Two workers in processes of their own, at one place or at two."""

    def __init__(self, ends: list[End], schema: pa.Schema, closing: ExitStack, places: str) -> None:
        keys = AttemptKeys.new(KeyPair.new().public)
        self._ends = ends
        self._schema = schema
        self._parties = [Party(number, keys, place) for number, place in enumerate(places)]
        for party in self._parties:
            closing.callback(party.close)
        link_up(self._parties)
        self._under_way = [0, 0]

    def send(self, to: int, message: Any) -> None:
        self._under_way[to] += 1
        self._parties[1 - to].links.send(to, message)

    def deliver(self) -> None:
        to = 0 if self._under_way[0] else 1
        arrived = deque(self._parties[to].receive(PATIENCE_S, self._schema))
        assert arrived, f"{self._under_way[to]} messages did not arrive"
        self._under_way[to] -= len(arrived)
        while arrived:
            self._ends[to].receive(arrived.popleft())


Connect = Callable[[list[Any], pa.Schema, ExitStack], Wire]
WIRES: dict[str, Connect] = {
    "same_worker": SameWorker,
    "mailboxes": Mailboxes,
    "simulated": Simulated,
    "unix_sockets": lambda ends, schema, closing: Sockets(ends, schema, closing, "aa"),
    "tcp_sockets": lambda ends, schema, closing: Sockets(ends, schema, closing, "ab"),
}

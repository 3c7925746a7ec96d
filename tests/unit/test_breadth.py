"""What a coordinator and a worker have to do grows with the parallelism, and not with its square.

What is counted are the instructions of the interpreter, messages, bytes and requests: no clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks import breadth
from mainstay.drive.shipment import Shipment
from mainstay.runtime.coordinator import recovery
from mainstay.runtime.coordinator.recovery import plan_restore
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt
from mainstay.runtime.ports import Ports
from mainstay.runtime.worker.gate import Gate
from mainstay.runtime.worker.worker import Worker

NARROW, WIDE = 16, 64
OPERATORS = 2
MOST = 1.05 * WIDE / NARROW
"""Times as much: names become longer, and sorting costs a little more."""


def instructions(work: Callable[[], object]) -> int:
    """How many instructions of Python a call takes: the same number on every machine."""
    found = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal found
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        found += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return found


class Broad:
    """Everything that is counted, at one parallelism."""

    def __init__(self, parallelism: int) -> None:
        self.job = breadth.plan(OPERATORS, parallelism)
        self.half = breadth.plan(OPERATORS, parallelism // 2)
        self.storage = breadth.Counted()
        self.world = breadth.World(self.job, self.storage, "new")
        self.world.ready()
        for _ in range(breadth.SEGMENTS + 2):
            self.world.epoch()

    def epoch(self) -> dict[str, int]:
        """Of the coordinator; the answers of the workers are made before it is counted."""
        before = self.storage.requests
        work = instructions(self.world.epoch)
        requests = self.storage.requests - before
        return {
            "an epoch": work,
            "messages of an epoch": len(self.world.sent),
            "requests of an epoch": requests,
        }

    def restore(self) -> dict[str, int]:
        manifest = self.world.manifest()
        again = breadth.World(self.job, self.storage, "latest")
        sent = sum(map(len, breadth.shipped(again.cluster.deployments[0])))
        return {
            "planning a restore": instructions(lambda: plan_restore(manifest, self.job, NONE)),
            "planning a rescale": instructions(lambda: plan_restore(manifest, self.half, NONE)),
            "bytes of a restore": sent,
        }

    def worker(self) -> dict[str, int]:
        clock, background, sent = breadth.Clock(), breadth.Later(), []  # type: ignore[var-annotated]
        ports = Ports(clock, background, lambda _, m: sent.append(m), breadth.Counted())
        worker = Worker(Deployment(self.job, Attempt(1), "lineage"), 0, ports)
        breadth._settle(worker, background)
        idle = instructions(worker.step)
        sent.clear()
        work = instructions(lambda: breadth._empty_epoch(worker, background, clock, self.job, 1))
        return {
            "an idle step": idle,
            "an empty epoch": work,
            "messages of a worker in an epoch": len(sent),
        }


NONE: frozenset[str] = frozenset()
GROUPS: dict[Callable[[Broad], dict[str, int]], tuple[str, ...]] = {
    Broad.epoch: ("an epoch", "messages of an epoch", "requests of an epoch"),
    Broad.restore: ("planning a restore", "planning a rescale", "bytes of a restore"),
    Broad.worker: ("an idle step", "an empty epoch", "messages of a worker in an epoch"),
}
COUNTED = [what for whats in GROUPS.values() for what in whats]


def growth(count: Callable[[Broad], dict[str, int]]) -> dict[str, float]:
    """How many times as much there is of each at four times the parallelism."""
    narrow, wide = (count(Broad(parallelism)) for parallelism in (NARROW, WIDE))
    return {what: wide[what] / narrow[what] for what in narrow}


@pytest.fixture(scope="module")
def grown() -> dict[str, float]:
    return {what: times for count in GROUPS for what, times in growth(count).items()}


@pytest.mark.parametrize("what", COUNTED)
def test_it_grows_no_faster_than_the_parallelism(grown: dict[str, float], what: str) -> None:
    assert grown[what] <= MOST


@pytest.mark.parametrize("what", ["requests of an epoch", "an idle step"])
def test_it_does_not_grow_at_all(grown: dict[str, float], what: str) -> None:
    assert grown[what] == 1


# ---------------------------------------------------------------- planted


@contextmanager
def every_worker_is_sent_all() -> Iterator[None]:
    right = Shipment.part

    def all_of_them(self: Any, worker: int) -> bytes:
        return b"".join(right(self, each) for each in self._states)

    with patch.object(Shipment, "part", all_of_them):
        yield


@contextmanager
def a_gate_looks_at_all_its_channels() -> Iterator[None]:
    def look(self: Any) -> bool:
        found = [channel for channel in self.channels if channel.queue and not channel.blocked]
        return bool(found)

    with patch.object(Gate, "is_ready", property(look)):
        yield


@contextmanager
def a_manifest_is_looked_through_for_each_subtask() -> Iterator[None]:
    right = recovery._distribute

    def look(stored: Any, *given: Any) -> Any:
        for _ in stored.subtasks:
            assert all(each.chain is not None for each in stored.subtasks)
        return right(stored, *given)

    with patch.object(recovery, "_distribute", look):
        yield


@contextmanager
def each_old_file_is_deleted_by_itself() -> Iterator[None]:
    right = breadth.Counted.delete

    def one_by_one(self: Any, *paths: str) -> None:
        for path in paths:
            right(self, path)

    with patch.object(breadth.Counted, "delete", one_by_one):
        yield


PLANTED = {
    "bytes of a restore": (every_worker_is_sent_all, Broad.restore),
    "an empty epoch": (a_gate_looks_at_all_its_channels, Broad.worker),
    "planning a restore": (a_manifest_is_looked_through_for_each_subtask, Broad.restore),
}


@pytest.mark.mutation
@pytest.mark.parametrize("what", PLANTED)
def test_what_grows_with_the_square_is_noticed(what: str) -> None:
    plant, count = PLANTED[what]
    with plant():
        assert growth(count)[what] > MOST


@pytest.mark.mutation
def test_a_request_for_each_subtask_is_noticed() -> None:
    with each_old_file_is_deleted_by_itself():
        assert growth(Broad.epoch)["requests of an epoch"] > 1

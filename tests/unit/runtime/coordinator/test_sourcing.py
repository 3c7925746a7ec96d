"""When sources are planned, and what is kept of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import SourceError
from mainstay.runtime.connector import Source, Split, SplitReader
from mainstay.runtime.coordinator.sourcing import Sourcing
from mainstay.runtime.messages import AssignSplits, Attempt


class Planned(Source):
    """Gives out what the test puts into ``offered``, and forgets what it puts into ``gone``."""

    schema = pa.schema([("n", pa.int64())])

    def __init__(self, replan_s: float | None, *, bounded: bool = False) -> None:
        self.replan_s = replan_s
        self.bounded = bounded
        self.offered: list[str] = []
        self.gone: list[str] = []
        self.plans: list[frozenset[str]] = []

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        self.plans.append(seen)
        return [Split(id) for id in self.offered]

    def forget(self, seen: frozenset[str]) -> Collection[str]:
        return self.gone

    def read(self, split: Split, offset: Any) -> SplitReader:
        raise NotImplementedError


class Subject:
    def __init__(self, world: Any, *sources: Source, notes: dict[str, Any] | None = None) -> None:
        env = ms.Environment(parallelism=1)
        for number, source in enumerate(sources):
            env.source(source, uid=f"s{number}").sink(Memory(), uid=f"out{number}")
        self.world = world
        self.failures: list[Exception] = []
        attempt = Attempt(1)
        self.sourcing = Sourcing(
            env.plan(), attempt, world.ports, notes or {}, self.failures.append
        )
        self.sourcing.start(None)

    def pass_time(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        self.sourcing.tick(self.world.clock.now)

    def given(self) -> list[str]:
        messages = self.world.sent(AssignSplits)
        return [split.id for message in messages for split in message.splits]


def test_each_source_is_planned_again_when_it_wants_to_be(world: Any) -> None:
    quick, slow, once = Planned(1.0), Planned(5.0), Planned(None)
    subject = Subject(world, quick, slow, once)
    world.background.drain()
    for _ in range(10):
        subject.pass_time(1.0)
        world.background.drain()
    assert [len(source.plans) for source in (quick, slow, once)] == [11, 3, 1]


def test_the_deadline_is_that_of_the_source_to_be_planned_first(world: Any) -> None:
    subject = Subject(world, Planned(5.0), Planned(2.0))
    assert subject.sourcing.deadline() is None, "while it is planned its report wakes"
    world.background.drain()
    assert subject.sourcing.deadline() == world.clock.now + 2.0


def test_a_bounded_source_and_one_that_needs_no_plan_have_no_deadline(world: Any) -> None:
    subject = Subject(world, Planned(1.0, bounded=True), Planned(None))
    world.background.drain()
    assert subject.sourcing.deadline() is None


def test_a_source_is_not_planned_again_while_it_is_planned(world: Any) -> None:
    held, other = Planned(1.0), Planned(1.0)
    subject = Subject(world, held, other)
    world.background.queue.pop(1).run()
    for _ in range(3):
        subject.pass_time(1.0)
        world.background.queue.pop(1).run()
    assert (len(held.plans), len(other.plans)) == (0, 4)


def test_what_a_source_says_after_a_plan_counts_for_the_next(world: Any) -> None:
    source = Planned(1.0)
    subject = Subject(world, source)
    source.replan_s = 60.0
    world.background.drain()
    assert subject.sourcing.deadline() == world.clock.now + 60.0


def test_forgotten_ids_leave_the_notes_and_the_next_plan(world: Any) -> None:
    source = Planned(1.0)
    source.offered = ["a", "b"]
    subject = Subject(world, source)
    world.background.drain()
    assert subject.sourcing.notes() == {"s0": {"seen": ["a", "b"], "complete": False}}
    source.offered, source.gone = ["b", "c"], ["a"]
    subject.pass_time(1.0)
    world.background.drain()
    assert subject.sourcing.notes() == {"s0": {"seen": ["b", "c"], "complete": False}}
    subject.pass_time(1.0)
    assert subject.given() == ["a", "b", "c"]
    world.background.drain()
    assert source.plans[-1] == {"b", "c"}


def test_a_bounded_source_is_not_asked_what_to_forget(world: Any) -> None:
    source = Planned(1.0, bounded=True)
    source.offered, source.gone = ["a"], ["a"]
    subject = Subject(world, source)
    world.background.drain()
    assert subject.sourcing.notes() == {"s0": {"seen": ["a"], "complete": True}}


def test_a_source_that_cannot_say_what_to_forget_fails_by_name(world: Any) -> None:
    class Broken(Planned):
        def forget(self, seen: frozenset[str]) -> Collection[str]:
            raise OSError("no such listing")

    subject = Subject(world, Broken(1.0))
    world.background.drain()
    (error,) = subject.failures
    with pytest.raises(SourceError, match=r"source 's0' cannot be planned.*no such listing"):
        raise error

"""Candidates, leaders and a store, each with a clock of its own, in any order of events."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pytest

from mainstay.ha import tenure as tenures
from mainstay.ha.tenure import Standing, Tenure
from mainstay.ha.watching import RESIGNED, Seen, Watching

LENGTH = 10.0


def watch(token: str = "me") -> Watching:
    return Watching(token, LENGTH)


def test_where_nobody_ever_led_the_first_number_is_taken_at_once() -> None:
    assert watch().saw(Seen(0), 0.0, 0.1) == 1


def test_a_beat_that_changes_is_waited_for_however_long() -> None:
    line = watch()
    for second in range(100):
        assert line.saw(Seen(3, "other", str(second)), second, second + 0.1) is None


def test_a_beat_that_stays_the_same_for_the_length_gives_the_next_number() -> None:
    line = watch()
    assert line.saw(Seen(3, "other", "7"), 0.0, 1.0) is None
    assert line.saw(Seen(3, "other", "7"), 10.9, 11.0) is None, "the first look ended at 1"
    assert line.saw(Seen(3, "other", "7"), 11.0, 11.1) == 4
    assert line.silent_s(11.1) == pytest.approx(10.1)


def test_a_candidate_that_was_frozen_looks_again_before_it_judges() -> None:
    line = watch()
    line.saw(Seen(3, "other", "7"), 0.0, 1.0)
    assert line.saw(Seen(3, "other", "70"), 500.0, 500.1) is None


def test_nobody_waits_for_a_leader_that_has_resigned_nor_for_oneself() -> None:
    assert watch().saw(Seen(3, "other", RESIGNED), 0.0, 0.1) == 4
    assert watch().saw(Seen(3, "me", "7"), 0.0, 0.1) == 4


def test_a_listing_that_is_behind_is_not_believed() -> None:
    line = watch()
    line.saw(Seen(5, "other", "1"), 0.0, 0.1)
    assert line.saw(Seen(4, "older", RESIGNED), 1.0, 1.1) is None
    assert line.seen == Seen(5, "other", "1")


def test_leases_that_somebody_has_deleted_are_forgotten_after_a_while() -> None:
    line = watch()
    line.saw(Seen(5, "other", "1"), 0.0, 0.1)
    assert line.saw(Seen(0), 5.0, 5.1) is None
    assert line.saw(Seen(0), 10.1, 10.2) is None
    assert line.saw(Seen(0), 11.0, 11.1) == 1


# ---------------------------------------------------------------- several of them


@dataclass
class Store:
    """What all see, at once."""

    leases: dict[int, str] = field(default_factory=dict)
    beats: dict[int, str] = field(default_factory=dict)

    def newest(self) -> Seen:
        number = max(self.leases, default=0)
        return Seen(number, self.leases.get(number, ""), self.beats.get(number, ""))


@dataclass
class Process:
    """One process: its steps come one by one, with any time in between. Its clock is its own."""

    name: str
    store: Store
    offset: float
    watching: Watching
    tenure: Tenure | None = None
    number: int = 0
    beats: int = 0
    steps: Iterator[None] | None = None

    def clock(self, world: float) -> float:
        return world + self.offset

    def leads(self, world: float) -> bool:
        """Whether it would take itself for the leader, if it woke up now."""
        if self.tenure is None:
            return False
        return replace(self.tenure).standing(self.clock(world)) is not Standing.OVER

    def run(self, world: list[float]) -> Iterator[None]:
        """Its life, with a yield wherever time may pass: the world goes on, or it is frozen."""
        while True:
            if self.tenure is not None:
                yield from self._renew(world)
            else:
                yield from self._watch(world)
            yield

    def _watch(self, world: list[float]) -> Iterator[None]:
        begun = self.clock(world[0])
        yield
        seen = self.store.newest()
        yield
        number = self.watching.saw(seen, begun, self.clock(world[0]))
        self.watching.check_invariants(self.clock(world[0]))
        if number is None:
            return
        yield
        begun = self.clock(world[0])
        yield
        if number in self.store.leases:
            return
        self.store.leases[number] = self.name
        yield
        if max(self.store.leases) > number:
            return
        yield
        self.number, self.tenure = number, Tenure(LENGTH, begun)

    def _renew(self, world: list[float]) -> Iterator[None]:
        assert self.tenure is not None
        begun = self.clock(world[0])
        if self.tenure.standing(begun) is Standing.OVER:
            self.tenure = None
            return
        yield
        self.beats += 1
        self.store.beats[self.number] = f"{self.name}-{self.beats}"
        yield
        if max(self.store.leases) > self.number:
            self.tenure = None
        yield
        if self.tenure is not None:
            self.tenure.renewed(begun, self.clock(world[0]))


def history(seed: int) -> tuple[int, int]:
    """How many moments had two leaders, and how many leaders there were in all."""
    chance, store, world = random.Random(seed), Store(), [0.0]
    processes = [
        Process(f"p{number}", store, chance.uniform(-1e6, 1e6), Watching(f"p{number}", LENGTH))
        for number in range(3)
    ]
    for process in processes:
        process.steps = process.run(world)
    frozen = dict.fromkeys(range(3), 0.0)
    twice, led = 0, set()
    for _ in range(3000):
        world[0] += chance.expovariate(4.0)
        awake = [n for n in range(3) if frozen[n] <= world[0]]
        for number in awake:
            if chance.random() < 0.02:
                frozen[number] = world[0] + chance.uniform(0, 4 * LENGTH)
            else:
                steps = processes[number].steps
                assert steps is not None
                next(steps)
        leaders = [each.name for each in processes if each.leads(world[0])]
        twice += len(leaders) > 1
        led.update(leaders)
    return twice, len(led)


@pytest.mark.parametrize("seed", range(25))
def test_no_two_processes_lead_at_a_time_whatever_their_clocks_say(seed: int) -> None:
    twice, led = history(seed)
    assert twice == 0
    assert led, "somebody leads in the end"


def test_the_lead_does_pass_between_processes() -> None:
    assert any(history(seed)[1] == 3 for seed in range(5))


# ---------------------------------------------------------------- planted bugs


@contextmanager
def a_lease_by_the_wall_clock() -> Iterator[None]:
    """Leaders note a time, and others compare it with theirs."""
    right = Watching.saw

    def compared(self: Watching, seen: Seen, begun_at: float, now: float) -> int | None:
        found = right(self, seen, begun_at, now)
        is_past = seen.number > 0 and begun_at > LENGTH
        return seen.number + 1 if is_past else found

    with patch.object(Watching, "saw", compared):
        yield


@contextmanager
def a_renewal_counts_from_its_answer() -> Iterator[None]:
    def renewed(self: Tenure, begun_at: float, now: float) -> bool:
        self.renewed_at = now
        return True

    with patch.object(tenures.Tenure, "renewed", renewed):
        yield


@contextmanager
def what_a_frozen_candidate_remembers_is_believed() -> Iterator[None]:
    right = Watching.saw

    def saw(self: Watching, seen: Seen, begun_at: float, now: float) -> int | None:
        last, since = self._last, self._since
        found = right(self, seen, begun_at, now)
        is_old = last is not None and last.number == seen.number and now - since >= LENGTH
        return seen.number + 1 if is_old else found

    with patch.object(Watching, "saw", saw):
        yield


BUGS = (
    a_lease_by_the_wall_clock,
    a_renewal_counts_from_its_answer,
    what_a_frozen_candidate_remembers_is_believed,
)


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_lets_two_lead_at_a_time(bug: object) -> None:
    with bug():  # type: ignore[operator]
        assert any(history(seed)[0] for seed in range(60))

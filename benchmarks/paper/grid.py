"""What is varied, one thing at a time, and how much is measured of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.paper.running import Case


@dataclass(frozen=True, slots=True)
class Axis:
    """Something that is varied: its title, what its column is called, and the value in a case."""

    title: str
    column: str
    value: Callable[[Case], float]

    def shown(self, case: Case) -> str:
        return f"{self.value(case):,g}" if self.value(case) < 1e4 else f"{self.value(case):,.0f}"


AXES = {
    "state": Axis("By the size of the state", "keys", lambda case: case.keys),
    "parallelism": Axis("By the parallelism", "workers", lambda case: case.workers),
    "shuffles": Axis("By the number of shuffles", "shuffles", lambda case: case.shuffles),
    "interval": Axis("By the interval of snapshots", "interval (s)", lambda case: case.every_s),
}
_FIELDS = {
    "state": "keys",
    "parallelism": "workers",
    "shuffles": "shuffles",
    "interval": "every_s",
}


@dataclass(frozen=True, slots=True)
class Amount:
    """``middle`` is the case from which each axis departs; ``seconds`` are those of a window."""

    name: str
    middle: Case
    values: Mapping[str, Sequence[Any]]
    seconds: float
    rounds: int

    def cases(self, axis: str) -> list[Case]:
        return [replace(self.middle, **{_FIELDS[axis]: each}) for each in self.values[axis]]

    def all_cases(self, axes: Sequence[str]) -> list[Case]:
        """Each once; the middle is on every axis."""
        return list(dict.fromkeys(case for axis in axes for case in self.cases(axis)))


FULL = Amount(
    "full",
    Case(),
    {
        "state": (10_000, 100_000, 1_000_000, 4_000_000),
        "parallelism": (1, 2, 4),
        "shuffles": (1, 2, 4),
        "interval": (0.25, 1.0, 4.0),
    },
    seconds=8.0,
    rounds=3,
)
QUICK = Amount(
    "quick",
    Case(every_s=0.5),
    {
        "state": (10_000, 100_000),
        "parallelism": (1, 2),
        "shuffles": (1, 2),
        "interval": (0.25, 0.5),
    },
    seconds=1.5,
    rounds=1,
)
TINY = Amount(
    "tiny",
    Case(keys=1000, workers=1, every_s=0.1),
    {"state": (100, 1000), "parallelism": (1, 2), "shuffles": (1, 2), "interval": (0.1, 0.2)},
    seconds=0.2,
    rounds=1,
)
AMOUNTS = {amount.name: amount for amount in (FULL, QUICK, TINY)}


def in_turn(modes: Sequence[str], rounds: int) -> Iterator[tuple[int, list[str]]]:
    """The rounds, and the modes in the order of each: another mode is first in every round."""
    for number in range(rounds):
        first = number % len(modes)
        yield number, [*modes[first:], *modes[:first]]

"""Programs that are run under a seed, for the tests of the runner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.testing import Result, rows, run

SCHEMA = "k string, n long"

VALUES = [("abcde"[n % 5], n) for n in range(300)]

SUMS = {key: sum(n for k, n in VALUES if k == key) for key in "abcde"}

# Parallelism, seed, crashes.
RUNS = [(1, 1, 2), (2, 4, 2), (3, 1, 2), (4, 6, 2)]

Build = Callable[[ms.Stream], ms.Stream]


def source(env: ms.Environment, uid: str = "in", **more: Any) -> ms.Stream:
    return env.source(rows(SCHEMA, VALUES, splits=3), uid=uid, **more)


def runs(describe: Build, mode: str = "exactly_once", among: Any = RUNS) -> Iterator[Result]:
    """The same job under several seeds."""

    def build(env: ms.Environment) -> None:
        describe(source(env)).sink(Memory(), uid="out")

    for parallelism, seed, crashes in among:
        yield run(build, parallelism=parallelism, seed=seed, crashes=crashes, mode=mode)


def gives(describe: Build, expected: list[tuple[Any, ...]], among: Any = RUNS) -> None:
    """Every seed gives these rows, in any order."""
    for result in runs(describe, among=among):
        assert Counter(result.output("out")) == Counter(expected)


class Sum(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        yield ctx.key, self.total.get()


def finals(output: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """The largest value of each key: where sums only grow, the last one."""
    return {key: max(n for k, n in output if k == key) for key, _ in output}


def running_sums() -> list[tuple[str, int]]:
    """What a running sum emits if the rows of a key come in their order."""
    seen: Counter[str] = Counter()
    found = []
    for key, n in VALUES:
        seen[key] += n
        found.append((key, seen[key]))
    return found

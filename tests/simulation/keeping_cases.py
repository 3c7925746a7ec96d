"""Jobs that keep some rows of each key, under crashes, rescales and both kinds of backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.plan.planning import plan_of
from mainstay.runtime.operators import forgetting
from mainstay.state.backends.contract import BackendSettings
from mainstay.testing import Result, rows, run
from mainstay.testing.run import _Trial
from tests.simulation.scenarios import database_of, external_of
from tests.times import DAY

EVENT = "id long, at timestamp, n long"
MODES = ("exactly_once", "unaligned")


def events(seed: int, count: int = 240) -> list[tuple[Any, ...]]:
    """Rows of a few keys, in the order of their times; no two have the same number."""
    random, now = Random(seed), DAY
    numbers = random.sample(range(10 * count), count)
    found = []
    for number in numbers:
        now += timedelta(seconds=random.randrange(10))
        found.append((random.randrange(20), now, number))
    return found


@dataclass(frozen=True, slots=True)
class Case:
    """A way to keep rows, and what a plain loop makes of the same rows."""

    keep: Callable[[Any], Any]
    expected: Callable[[list[Any]], Any]
    found: Callable[[list[Any]], Any]
    is_timed: bool = False


def first_of_each(given: list[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    for row in given:
        found.setdefault(row[0], row)
    return sorted(found.values())


def first_within_a_minute(given: list[Any]) -> list[Any]:
    seen: dict[int, Any] = {}
    found = []
    for row in given:
        if row[0] not in seen or row[1] >= seen[row[0]] + timedelta(minutes=1):
            seen[row[0]] = row[1]
            found.append(row)
    return sorted(found)


def newest_of_each(given: list[Any]) -> dict[int, Any]:
    return {row[0]: row for row in sorted(given, key=lambda row: row[2])}


def first_ranks(given: list[Any]) -> dict[tuple[int, int], Any]:
    found = {}
    for key in {row[0] for row in given}:
        of_key = sorted((row for row in given if row[0] == key), key=lambda row: -row[2])
        found.update({(key, rank): row for rank, row in enumerate(of_key[:3], start=1)})
    return found


CASES = {
    "first": Case(lambda keyed: keyed.deduplicate(uid="keep"), first_of_each, sorted),
    "first within a minute": Case(
        lambda keyed: keyed.deduplicate(within="1min", uid="keep"),
        first_within_a_minute,
        sorted,
        is_timed=True,
    ),
    "last": Case(
        lambda keyed: keyed.deduplicate("last", by="n", uid="keep"),
        newest_of_each,
        lambda out: {row[0]: row for row in out},
    ),
    "top": Case(
        lambda keyed: keyed.top(3, by="n", uid="keep"),
        first_ranks,
        lambda out: {(row[0], row[3]): row[:3] for row in out},
    ),
}


def result_of(case: Case, seed: int, mode: str, backend: str, **faults: Any) -> tuple[Any, Any]:
    """What the job has committed, as the case sees it, and what it should be."""
    given = events(seed)

    def build(env: ms.Environment) -> None:
        time = {"watermark": ms.Watermark("at")} if case.is_timed else {}
        stream = env.source(rows(EVENT, given), uid="in", **time)
        case.keep(stream.key_by("id")).sink(Memory(), uid="out")

    with kept_in(backend, seed), patch.object(forgetting, "SLICE_KEYS", 3):
        result = run(build, parallelism=1, seed=seed, mode=mode, **faults)
    return case.found(result.output("out")), case.expected(given)


@contextmanager
def kept_in(backend: str, seed: int) -> Iterator[None]:
    """Have runs keep their state in a backend: ``heap``, ``rocksdb`` or ``external``."""
    store = external_of(seed) if backend == "external" else None
    settings: BackendSettings = store or database_of(seed)
    right = _Trial.run

    def planned(*arguments: Any) -> Any:
        return replace(plan_of(*arguments), backend=settings)

    def run_once(self: _Trial, *arguments: Any) -> Result:
        """A run with faults comes after others of the same seed, which have left their state."""
        if store is not None:
            store.fresh()
        return right(self, *arguments)

    if backend == "heap":
        yield
    else:
        with (
            patch("mainstay.testing.run.plan_of", planned),
            patch.object(_Trial, "run", run_once),
        ):
            yield

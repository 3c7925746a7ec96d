"""Distinct values are counted right, whatever befalls a job: for ever, in windows, in sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.memory import Memory
from mainstay.testing import rows
from tests.contract.test_distinct_sets import MUTATIONS
from tests.simulation.join_cases import merged_soon, run
from tests.simulation.noticing import is_noticed

T0 = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROW = "k string, v long, s string, at timestamp"
GAP_S, SIZE_S, EVERY_S = 5, 20, 10
SEEDS = 2
WITHIN = 20


def drawn(seed: int, count: int = 100) -> list[tuple[Any, ...]]:
    """Rows somewhat out of order, with pauses that end sessions and late ones that join them."""
    random, found, second = Random(seed), [], 0
    for _ in range(count):
        second += random.choice([0, 0, 1, 1, 2, 9])
        at = T0 + timedelta(seconds=max(0, second - random.randint(0, 8)))
        text = random.choice([None, f"t{random.randrange(40)}"])
        found.append((f"k{random.randrange(3)}", random.randrange(60), text, at))
    return found


def build(env: ms.Environment, given: list[Any]) -> None:
    stream = env.source(
        rows(ROW, given, splits=2), uid="rows", watermark=ms.Watermark("at", delay="1h")
    )
    keyed = stream.key_by("k")
    counts = {
        "n": ms.count(),
        "numbers": ms.count_distinct("v"),
        "texts": ms.count_distinct("s", where=ms.col("v") > 20),
    }
    streams = {
        "ever": keyed.aggregate(**counts, uid="ever"),
        "tumbling": keyed.window(ms.tumbling(f"{SIZE_S}s")).aggregate(**counts, uid="tumbling"),
        "sliding": keyed.window(ms.sliding(f"{SIZE_S}s", every=f"{EVERY_S}s")).aggregate(
            **counts, uid="sliding"
        ),
        "session": keyed.window(ms.session(f"{GAP_S}s")).aggregate(**counts, uid="session"),
    }
    for name, each in streams.items():
        each.sink(Memory(), uid=f"{name}-out")


def counted(some: Iterable[tuple[Any, ...]]) -> tuple[int, int, int]:
    own = list(some)
    texts = {row[2] for row in own if row[1] > 20} - {None}
    return len(own), len({row[1] for row in own}), len(texts)


def of_windows(given: list[Any], every: int) -> dict[Any, tuple[int, int, int]]:
    windows: dict[Any, list[Any]] = defaultdict(list)
    for row in given:
        second = int((row[3] - T0).total_seconds())
        first = second - second % every
        for start in range(first, first - SIZE_S, -every):
            windows[row[0], T0 + timedelta(seconds=start)].append(row)
    return {window: counted(some) for window, some in windows.items()}


def of_sessions(given: list[Any]) -> dict[Any, tuple[int, int, int]]:
    sessions: dict[Any, list[Any]] = {}
    for key in {row[0] for row in given}:
        last = None
        for row in sorted((row for row in given if row[0] == key), key=lambda row: row[3]):
            if last is None or row[3] > last + timedelta(seconds=GAP_S):
                start = row[3]
            sessions.setdefault((key, start), []).append(row)
            last = row[3]
    return {session: counted(some) for session, some in sessions.items()}


def check(seed: int) -> None:
    given = drawn(seed)
    with merged_soon():
        result = run(
            lambda env: build(env, given),
            parallelism=1 + seed % 2,
            seed=seed,
            crashes=2,
            rescales=(3,),
        )
    ever = {row[0]: tuple(row[-3:]) for row in result.output("ever-out")}
    assert ever == {key: counted(r for r in given if r[0] == key) for key in ever}
    wanted = {
        "tumbling": of_windows(given, SIZE_S),
        "sliding": of_windows(given, EVERY_S),
        "session": of_sessions(given),
    }
    for name, windows in wanted.items():
        found = result.output(f"{name}-out")
        assert {(row[0], row[1]): tuple(row[-3:]) for row in found} == windows, name
        assert len(found) == len(windows), name


@pytest.mark.parametrize("seed", range(SEEDS))
def test_distinct_values_are_counted_right(seed: int) -> None:
    check(seed)


@pytest.mark.mutation
def test_a_job_shows_that_what_an_epoch_added_that_was_given_up_is_lost() -> None:
    """The suite of backends finds the other bugs, and is quicker."""
    with MUTATIONS["what an epoch that was given up added is lost"]():
        assert is_noticed(check, WITHIN)

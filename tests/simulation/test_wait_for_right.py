"""Left rows that wait for the end of the right input meet all of it, whatever crashes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.memory import Memory
from mainstay.testing import rows, run
from tests.simulation.join_cases import run as run_with_watermarks

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
LEFT = [(f"k{n % 7}", n, START + timedelta(seconds=n)) for n in range(200)]
RIGHT = [(f"k{n % 9}", n) for n in range(300)]
NAMES = Counter(key for key, _ in RIGHT)


class Counted(ms.CoKeyedProcess):
    """Each left row with how many right ones of its key there are."""

    seen = ms.OperatorListState("string", redistribute="union")

    def process_left(self, row: Any, ctx: Any) -> Any:
        if not hasattr(self, "counts"):
            self.counts = Counter(self.seen.get())
        is_late = ctx.watermark is not None and row.at < ctx.watermark
        yield row.k, row.n, self.counts[row.k], is_late

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.seen.add(row.id)


class CountedByKey(ms.CoKeyedProcess):
    n = ms.ReducingState("long", lambda one, other: one + other)

    def process_left(self, row: Any, ctx: Any) -> Any:
        is_late = ctx.watermark is not None and row.at < ctx.watermark
        yield row.k, row.n, self.n.get() or 0, is_late

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.n.add(1)


def build(env: ms.Environment, *, is_keyed: bool) -> None:
    left = env.source(
        rows("k string, n long, at timestamp", LEFT, splits=2),
        uid="left",
        watermark=ms.Watermark("at", delay="300s"),
    )
    right = env.source(rows("id string, m long", RIGHT, splits=2), uid="right")
    if is_keyed:
        both = left.key_by("k").connect(right.key_by("id"), wait_for_right=True)
    else:
        both = left.connect(right.broadcast(), wait_for_right=True)
    counted = both.process(
        CountedByKey() if is_keyed else Counted(),
        "k string, n long, c long, late boolean",
        uid="count",
    )
    counted.sink(Memory(), uid="out")


@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("crashes", [0, 4])
def test_a_left_row_meets_all_right_rows(is_keyed: bool, crashes: int) -> None:
    for seed in range(3):
        options: dict[str, Any] = {"seed": seed, "crashes": crashes}
        if is_keyed and crashes:
            options |= {"parallelism": 1, "rescales": (3, 2)}
        elif not is_keyed:
            # Each subtask has a copy of the right rows, which a restore shows to all.
            options |= {"parallelism": 1}
        result = run_with_watermarks(lambda env: build(env, is_keyed=is_keyed), **options)
        expected = [(k, n, NAMES[k], False) for k, n, _ in LEFT]
        assert sorted(result.output("out"), key=lambda row: row[1]) == expected, f"seed {seed}"
        held = "held_rows_by_key" if is_keyed else "held_rows"
        assert not any(result.state("count", held))


def test_without_waiting_a_left_row_may_come_too_early() -> None:
    def program(env: ms.Environment) -> None:
        left = env.source(rows("k string, n long, at timestamp", LEFT), uid="left")
        right = env.source(rows("id string, m long", RIGHT), uid="right")
        both = left.key_by("k").connect(right.key_by("id"))
        both.process(CountedByKey(), "k string, n long, c long, late boolean", uid="count").sink(
            Memory(), uid="out"
        )

    found = run(program).output("out")
    assert any(count < NAMES[key] for key, _, count, _ in found)


def test_waiting_for_what_never_ends_is_refused() -> None:
    env = ms.Environment()
    left = env.source(rows("n long", []), uid="left")
    right = env.source(ms.connectors.Sequence(), uid="numbers")
    with pytest.raises(ms.errors.GraphError, match="'numbers' of the right side has no end"):
        left.connect(right.broadcast(), wait_for_right=True)

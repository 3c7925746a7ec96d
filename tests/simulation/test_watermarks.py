"""Operators that take watermarks in many slices, through crashes and in every kind of chain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.rows import ProcessRows
from mainstay.runtime.watermarks import LAST
from mainstay.runtime.worker.assembly import Assembler
from mainstay.runtime.worker.operator_chain import OperatorChain
from mainstay.schema import rows_to_batch
from mainstay.testing import rows, run

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS = [(n, START + timedelta(seconds=n)) for n in range(600)]
SEEDS = 4


class Holding(ms.Process):
    """Keeps rows until their time has come."""

    held = ms.OperatorListState("struct<n:long,us:long>")

    def process(self, row: Any, ctx: Any) -> Any:
        self.held.add((row.n, round(row.at.timestamp() * 1e6)))

    def due(self, time_us: int) -> list[tuple[int]]:
        held = [(each.n, each.us) for each in self.held.get()]
        self.held.update([each for each in held if each[1] > time_us])
        return [(n,) for n, us in held if us <= time_us]


class Adding(ms.Process):
    """What comes behind it in its chain."""

    def process(self, row: Any, ctx: Any) -> Any:
        return (row.n + 1,)


def on_watermark(self: Any, watermark: TimeMark) -> Iterator[None]:
    """What is due leaves the state at once, and is emitted a few rows at a time."""
    yield from Operator.on_watermark(self, watermark)
    if isinstance(self._function, Holding) and watermark.time_us is not None:
        due = self._function.due(watermark.time_us)
        for start in range(0, len(due), 3):
            self.out(rows_to_batch(due[start : start + 3], self._schema, "a test"))
            yield


@pytest.fixture(autouse=True)
def _operators_that_hold_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessRows, "on_watermark", on_watermark)


def emitted(seed: int, mode: str, place: str) -> list[int]:
    def build(env: ms.Environment) -> None:
        source = rows("n long, at timestamp", ROWS, splits=4)
        stream = env.source(source, uid="in", watermark=ms.Watermark("at"))
        stream = stream if place == "chained" else stream.rebalance()
        held = stream.process(Holding(), "n long", uid="hold")
        held.process(Adding(), "n long", uid="add").sink(Memory(), uid="out")

    result = run(build, parallelism=2, seed=seed, crashes=4, mode=mode)
    assert len(result.attempts) > 1
    return sorted(n - 1 for (n,) in result.output("out"))


@pytest.mark.parametrize("place", ["chained", "behind_a_gate"])
@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
def test_what_watermarks_bring_about_happens_once_whatever_crashes(mode: str, place: str) -> None:
    for seed in range(SEEDS):
        assert emitted(seed, mode, place) == list(range(len(ROWS))), f"seed {seed}"


@contextmanager
def a_cut_falls_into_a_watermark() -> Iterator[None]:
    def not_settled(self: Any) -> bool:
        return not self._pace.has_rest and self.replays.is_empty

    def rows_only(self: Any, *, behind_head: bool) -> None:
        self._pace.finish(1024, behind_head=behind_head)

    with (
        patch.object(OperatorChain, "is_settled", property(not_settled)),
        patch.object(OperatorChain, "finish", rows_only),
    ):
        yield


@contextmanager
def what_is_left_of_a_watermark_is_forgotten() -> Iterator[None]:
    right = OperatorChain._passing

    def once(self: Any, watermark: Any) -> Iterator[None]:
        for _ in right(self, watermark):
            yield
            return

    with patch.object(OperatorChain, "_passing", once):
        yield


BUGS = [a_cut_falls_into_a_watermark, what_is_left_of_a_watermark_is_forgotten]


@pytest.mark.mutation
@pytest.mark.parametrize("place", ["chained", "behind_a_gate"])
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any, place: str) -> None:
    mode = "exactly_once" if place == "chained" else "unaligned"

    expected = list(range(len(ROWS)))
    with bug():
        assert any(emitted(seed, mode, place) != expected for seed in range(100))


# ---------------------------------------------------------------- the end of time


def loop(stream: Any) -> Any:
    def body(entering: Any) -> tuple[Any, Any]:
        moved = entering.map(lambda row: (row.n - 300, row.at), "n long, at timestamp", uid="less")
        return moved.filter(lambda row: row.n > 0, uid="on"), moved

    return stream.iterate(body, uid="loop")


CHAINS: dict[str, Callable[[Any], Any]] = {
    "a map": lambda stream: stream.map(lambda row: (row.n,), "n long", uid="f"),
    "a keyed function": lambda stream: stream.key_by("n").process(Keyed(), "n long", uid="f"),
    "two inputs": lambda stream: (
        stream.key_by("n").connect(stream.key_by("n")).process(OfTwo(), "n long", uid="f")
    ),
    "an aggregate": lambda stream: stream.key_by("n").aggregate(c=ms.count(), uid="f"),
    "held rows": lambda stream: stream.process(Holding(), "n long", uid="f").rebalance(),
    "a loop": loop,
}


class Keyed(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        return (row.n,)


class OfTwo(ms.CoKeyedProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        return (row.n,)

    def process_right(self, row: Any, ctx: Any) -> Any:
        return (row.n,)


@pytest.mark.parametrize("name", CHAINS)
def test_the_last_watermark_comes_to_every_operator_before_the_end_of_input(name: str) -> None:
    heard: dict[tuple[str, int], list[Any]] = defaultdict(list)
    right = Assembler.open

    def listening(self: Any, task: Any) -> None:
        right(self, task)
        for member in task.members:
            listen(member.operator, heard[member.uid, self.worker])

    def listen(operator: Any, said: list[Any]) -> None:
        hear, end = operator.on_watermark, operator.end_of_input

        def on_watermark(watermark: TimeMark) -> Iterator[None]:
            yield from hear(watermark)
            said.append(watermark.time_us)

        def end_of_input() -> None:
            said.append("end")
            end()

        operator.on_watermark, operator.end_of_input = on_watermark, end_of_input

    def build(env: ms.Environment) -> None:
        source = rows("n long, at timestamp", ROWS, splits=2)
        stream = env.source(source, uid="in", watermark=ms.Watermark("at"))
        CHAINS[name](stream).sink(Memory(), uid="out")

    with patch.object(Assembler, "open", listening):
        run(build, parallelism=2)
    assert {uid for uid, _ in heard} >= {"in", "out"}
    for place, said in heard.items():
        assert said[-1] == "end", place
        assert said.count("end") == 1, place
        assert LAST.time_us in said, place
        assert said[-2] == LAST.time_us, place

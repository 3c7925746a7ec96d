"""Functions that wait, under crashes, rescales and reordering: every row has its result once, in
order where that is promised, and never on the other side of a watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime.coordinator import loops
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.calling import CallRows
from mainstay.testing import rows, run
from tests.simulation.planting import planting
from tests.times import DAY

COUNT = 200
EVENT = "n long, at timestamp"
EVENTS = [(n, DAY + timedelta(seconds=n)) for n in range(COUNT)]
EXPECTED = [(n, False) for n in range(COUNT)]
SEEDS = 3
MODES = ["exactly_once", "unaligned"]
PLACES = ["chained", "behind_a_gate"]
RESCALED: dict[str, Any] = {"parallelism": 1, "crashes": 3, "rescales": [3, 2]}


@pytest.fixture(autouse=True)
def _watermarks_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """These jobs are over in less than a second of their own time."""
    right = ms.Watermark.spec
    monkeypatch.setattr(ms.Watermark, "spec", lambda *given: replace(right(*given), every_s=0.002))


async def asked(row: Any) -> Any:
    await asyncio.sleep(0)
    return row.n, row.at


def asked_by_a_thread(row: Any) -> Any:
    return row.n, row.at


class OnTime(ms.Process):
    """Passes rows on, and says of each whether event time had passed it."""

    def process(self, row: Any, ctx: Any) -> Any:
        return row.n, ctx.watermark is not None and row.at < ctx.watermark


def output_of(
    seed: int, mode: str, place: str, *, ordered: bool, has_time: bool = True, **faults: Any
) -> list[Any]:
    def build(env: ms.Environment) -> None:
        time = {"watermark": ms.Watermark("at")} if has_time else {}
        stream = env.source(rows(EVENT, EVENTS), uid="in", **time)
        stream = stream if place == "chained" else stream.rebalance()
        function = asked if seed % 2 else asked_by_a_thread
        called = stream.map_async(function, EVENT, capacity=5, ordered=ordered, uid="ask")
        called.process(OnTime(), "n long, is_late boolean", uid="check").sink(Memory(), uid="out")

    return run(build, seed=seed, mode=mode, **faults).output("out")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("has_time", [True, False])
def test_every_row_has_its_result_once_and_on_its_side_of_watermarks(
    mode: str, place: str, has_time: bool
) -> None:
    for seed in range(SEEDS):
        out = output_of(seed, mode, place, ordered=False, has_time=has_time, **RESCALED)
        assert sorted(out) == EXPECTED, f"seed {seed}"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_ordered_results_are_in_the_order_of_the_rows(mode: str, place: str) -> None:
    for seed in range(SEEDS):
        out = output_of(seed, mode, place, ordered=True, parallelism=1, crashes=3)
        assert out == EXPECTED, f"seed {seed}"


# ---------------------------------------------------------------- loops


async def one_less(row: Any) -> Any:
    return row.n - 50, row.first


def rounds_of(seed: int) -> list[int]:
    """What leaves a loop in which a function waits, by the row that has entered it."""

    def body(entering: Any) -> tuple[Any, Any]:
        called = entering.map_async(one_less, "n long, first long", ordered=False, uid="less")
        back = called.filter(lambda row: row.n > 0, uid="back")
        return back, called.filter(lambda row: row.n <= 0, uid="on")

    def build(env: ms.Environment) -> None:
        given = [(n, n) for n in range(1, COUNT)]
        stream = env.source(rows("n long, first long", given), uid="in")
        stream.iterate(body, uid="loop").sink(Memory(), uid="out")

    result = run(build, parallelism=2, seed=seed, crashes=2)
    return sorted(first for _, first in result.output("out"))


def test_a_loop_ends_when_no_row_in_it_waits() -> None:
    for seed in range(SEEDS):
        assert rounds_of(seed) == list(range(1, COUNT)), f"seed {seed}"


# ---------------------------------------------------------------- planted bugs

BUGS, bug = planting()


@bug
def a_row_in_flight_is_lost() -> Iterator[None]:
    with patch.object(CallRows, "before_marker", lambda self, epoch: self.flush()):
        yield


@bug
def a_row_in_flight_is_emitted_twice_after_a_restore() -> Iterator[None]:
    """What is emitted just before the marker is in the state as well."""

    def stored_first(self: Any, epoch: Any) -> None:
        self._state.update([call.row for call in self._in_flight.values()])
        self.flush()

    with patch.object(CallRows, "before_marker", stored_first):
        yield


@bug
def a_watermark_does_not_wait() -> Iterator[None]:
    with patch.object(CallRows, "on_watermark", Operator.on_watermark):
        yield


@bug
def the_end_of_input_does_not_wait() -> Iterator[None]:
    with patch.object(CallRows, "before_end", lambda self: iter(())):
        yield


@bug
def restored_rows_come_behind_new_ones() -> Iterator[None]:
    right_open, right_process = CallRows.open, CallRows.process

    def open(self: Any, context: Any) -> None:
        state = context.lists["in_flight_calls"]
        self._held = state.get()
        state.clear()
        right_open(self, context)
        state.update(self._held)

    def process(self: Any, batch: Any, port: int) -> None:
        right_process(self, batch, port)
        held, self._held = self._held, []
        self._take(held)

    def before_end(self: Any) -> Any:
        held, self._held = self._held, []
        self._take(held)
        return self._until_all_is_out()

    with (
        patch.object(CallRows, "open", open),
        patch.object(CallRows, "process", process),
        patch.object(CallRows, "before_end", before_end),
    ):
        yield


@bug
def results_come_as_they_are_there() -> Iterator[None]:
    def as_they_are(self: Any) -> list[Any]:
        numbers, self._done_numbers = self._done_numbers, []
        return [self._in_flight.pop(number).result for number in numbers]

    with patch.object(CallRows, "_take_done", as_they_are):
        yield


@bug
def a_loop_ends_while_a_row_in_it_waits() -> Iterator[None]:
    with patch.object(loops, "_has_calls", lambda manifest: False):
        yield


def is_wrong(name: str, seed: int) -> bool:
    mode = MODES[seed % 2]
    if "loop" in name:
        return rounds_of(seed) != list(range(1, COUNT))
    if "restored" in name or "results" in name:
        return output_of(seed, mode, "chained", ordered=True, parallelism=1, crashes=3) != EXPECTED
    has_time = "end of input" not in name
    out = output_of(seed, mode, PLACES[seed % 2], ordered=False, has_time=has_time, **RESCALED)
    return sorted(out) != EXPECTED


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with BUGS[name]():
        assert any(is_wrong(name, seed) for seed in range(60)), f"no seed notices: {name}"

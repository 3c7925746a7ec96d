"""Rows that are held, so that a processor is given more rows of a key together."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.runtime.messages import TimeMark
from mainstay.testing import run
from tests.processors.slices import Slices, seconds


class Calls(StatefulProcessor):
    """How many rows a call has; a timer a second after it."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.rows = handle.getValueState("rows", "n long")
        self.calls = handle.getValueState("calls", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        n = len(list(rows))
        self.rows.update(((self.rows.get() or (0,))[0] + n,))
        self.calls.update(((self.calls.get() or (0,))[0] + 1,))
        if self.mode == "ProcessingTime":
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1000)
        if self.mode == "EventTime":
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 5000)
        yield Row(id=key[0], n=n)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield Row(id=key[0], n=-timerValues.getCurrentWatermarkInMs())

    def __init__(self, mode: str = "None") -> None:
        self.mode = mode


def slices(group: Any, mode: str = "None") -> Slices:
    def build(keyed: Any) -> Any:
        return keyed.transform_with_state(
            Calls(mode), "id string, n long", time_mode=mode, group=group, uid="f"
        )

    return Slices("id string, at timestamp", "id", build, time="at")


def test_rows_wait_for_the_marker() -> None:
    run = slices("epoch")
    assert run.take(("a", seconds(1)), ("b", seconds(1))) == []
    assert run.take(("a", seconds(2))) == []
    assert run.wait(3600) == []
    assert sorted(run.marker()) == [("a", 2), ("b", 1)]
    assert run.marker() == []


def test_rows_wait_for_some_time() -> None:
    run = slices("2s")
    assert run.take(("a", seconds(1))) == []
    assert run.wait(1) == []
    assert run.take(("a", seconds(2))) == []
    assert run.operator.deadline() == run.clock.now + 1
    assert run.wait(1) == [("a", 2)]
    assert run.operator.deadline() is None
    run.take(("a", seconds(3)))
    assert run.marker() == [("a", 1)], "a marker does not wait"


def test_timers_wait_for_rows_that_are_held() -> None:
    run = slices("epoch", "ProcessingTime")
    run.take(("a", seconds(1)))
    assert run.marker() == [("a", 1)]
    run.take(("a", seconds(2)))
    assert run.wait(5) == []
    assert run.marker() == [("a", 1), ("a", 0)]


def test_a_watermark_waits_for_rows_that_are_held() -> None:
    run = slices("epoch", "EventTime")
    run.take(("a", seconds(20)))
    assert run.watermark(10) == []
    mark = TimeMark(10_000_000)
    assert run.operator.forwarded(mark) == TimeMark(None)
    # The timer is set at 5 s, the watermark having stood at 0 for the rows.
    assert run.marker() == [("a", 1), ("a", -10000)]
    assert run.operator.forwarded(mark) == mark
    run.take(("a", seconds(9)))
    assert run.marker() == [], "late by now"


def test_the_last_watermark_hands_over_what_is_held() -> None:
    run = slices("epoch")
    run.take(("a", seconds(1)))
    assert run.watermark(253_402_300_799.999_999) == [("a", 1)]


@pytest.mark.parametrize("group", ["epoch", "5ms"])
@pytest.mark.parametrize("seed", range(3))
def test_no_row_is_lost_or_counted_twice_whatever_fails(group: str, seed: int) -> None:
    rows = [(f"k{n % 5}", seconds(n)) for n in range(200)]

    def build(env: Any) -> None:
        source = env.source(ms.connectors.Rows("id string, at timestamp", rows), uid="in")
        counted = source.key_by("id").transform_with_state(
            Calls(), "id string, n long", group=group, uid="f"
        )
        counted.sink(ms.connectors.Memory(), uid="out")

    result = run(build, seed=seed, crashes=2, rescales=[3][: seed % 2])
    counts = {key: row.n for key, row in result.state("f", "rows").items()}
    assert counts == {f"k{n}": 40 for n in range(5)}
    assert sum(n for _, n in result.output("out")) == 200


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(GraphError, match='Or say group="epoch"'):
        slices("batch")

"""Bugs to plant in what a job goes on from when its input had ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from mainstay.runtime.operators import ended
from mainstay.runtime.operators.ended import EndingTimes
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.runtime.operators.joins.interval import IntervalJoin
from mainstay.runtime.operators.session import SessionByKey
from mainstay.runtime.operators.source import SourceOperator
from mainstay.runtime.operators.timed import TimedFunction
from mainstay.runtime.operators.told import ToldTime
from mainstay.runtime.operators.window import WindowByKey
from mainstay.runtime.watermarks import END_US, LAST
from mainstay.state.rows import RowsHandle
from mainstay.state.timer_handles import TimersHandle
from tests.simulation.planting import each_step, planting

MUTATIONS, mutation = planting()


def _forgets_the_end(operator: Any) -> Any:
    """The operator has come no further by its end than before it."""
    right = operator._fire

    def fire(self: Any, now_us: int) -> Iterator[None]:
        before = self._fired._times.copy()
        yield from right(self, now_us)
        if now_us >= END_US:
            self._fired._times[:] = before
            self._fired._is_stored = False
            self._fired._note()

    return patch.object(operator, "_fire", fire)


@mutation
def a_window_that_the_end_has_emitted_takes_rows() -> Iterator[None]:
    with _forgets_the_end(WindowByKey):
        yield


@mutation
def a_session_that_the_end_has_emitted_takes_rows() -> Iterator[None]:
    with _forgets_the_end(SessionByKey):
        yield


@mutation
def how_far_sessions_have_fired_is_not_restored() -> Iterator[None]:
    right = SessionByKey.open

    def without(self: Any, context: Any) -> None:
        with patch.object(FiredTimes, "_restore", lambda *arguments: None):
            right(self, context)

    with (
        patch.object(SessionByKey, "open", without),
        patch.object(EndingTimes, "_go_on", lambda self: None),
    ):
        yield


@mutation
def the_end_of_input_is_the_end_of_time() -> Iterator[None]:
    right = EndingTimes.ended

    def for_ever(self: Any) -> None:
        self.advance(END_US)
        right(self)

    with patch.object(EndingTimes, "ended", for_ever):
        yield


@mutation
def every_subtask_goes_on_from_its_own_end() -> Iterator[None]:
    with patch.object(EndingTimes, "_go_on", lambda self: None):
        yield


@mutation
def the_end_of_one_subtask_is_the_end_of_all() -> Iterator[None]:
    with patch.object(ended, "_are_all", lambda runs, count: bool(runs)):
        yield


@mutation
def how_far_moved_key_groups_had_come_is_stored_by_nobody() -> Iterator[None]:
    right = FiredTimes.__init__

    def stored(self: Any, context: Any) -> None:
        right(self, context)
        self._is_stored = True

    with patch.object(FiredTimes, "__init__", stored):
        yield


@mutation
def rows_that_a_join_let_go_at_the_end_are_there_again() -> Iterator[None]:
    right = IntervalJoin.on_watermark

    def on_watermark(self: Any, watermark: Any) -> Iterator[None]:
        if watermark != LAST:
            yield from right(self, watermark)
            return
        yield from each_step(right(self, watermark), RowsHandle, "drop", lambda self, pane: None)

    with patch.object(IntervalJoin, "on_watermark", on_watermark):
        yield


@mutation
def timers_that_the_end_has_fired_are_set_again() -> Iterator[None]:
    right = TimedFunction.on_watermark

    def on_watermark(self: Any, watermark: Any) -> Iterator[None]:
        if watermark != LAST:
            yield from right(self, watermark)
            return
        yield from each_step(
            right(self, watermark), TimersHandle, "take", lambda self: self.index.poll()
        )

    with patch.object(TimedFunction, "on_watermark", on_watermark):
        yield


@mutation
def a_source_tells_the_end_again() -> Iterator[None]:
    """Though it has more to read when the job is started again."""
    right = SourceOperator.before_marker

    def before_marker(self: Any, epoch: Any) -> None:
        store = ToldTime.store
        with patch.object(
            ToldTime, "store", lambda told, time: store(told, LAST if self.is_exhausted else time)
        ):
            right(self, epoch)

    with patch.object(SourceOperator, "before_marker", before_marker):
        yield

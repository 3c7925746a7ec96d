"""Bugs to plant in windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from mainstay.plan.combining import _Combining
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.runtime.operators.window import WindowByKey
from mainstay.runtime.worker.operator_chain import OperatorChain
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def how_far_windows_have_fired_is_not_stored() -> Iterator[None]:
    with patch.object(FiredTimes, "store", lambda self: None):
        yield


@mutation
def a_watermark_is_forwarded_before_the_results_that_it_brings_about() -> Iterator[None]:
    right = OperatorChain._passing

    def early(self: Any, watermark: Any) -> Iterator[None]:
        for output in self.outputs:
            output.send_control(watermark)
        outputs, self.outputs = self.outputs, []
        slices = right(self, watermark)
        while True:
            self.outputs = []
            found = next(slices, self)
            self.outputs = outputs
            if found is self:
                return
            yield

    with patch.object(OperatorChain, "_passing", early):
        yield


@mutation
def late_rows_are_combined_away() -> Iterator[None]:
    with patch.object(_Combining, "_late_are_read", lambda self, operator: False):
        yield


@mutation
def a_pane_is_dropped_before_it_is_emitted() -> Iterator[None]:
    right = WindowByKey._emit

    def dropped(self: Any, end: int, keys: Any, columns: Any, *, is_final: bool) -> Iterator[None]:
        instant = end + self._emission.lateness_us
        self._forget(instant)
        self._fired.advance(instant)
        self.may_be_cut = True
        yield
        yield from right(self, end, keys, columns, is_final=is_final)

    with patch.object(WindowByKey, "_emit", dropped):
        yield


@mutation
def a_window_may_be_cut_while_it_is_emitted() -> Iterator[None]:
    right = WindowByKey._emit

    def cut(self: Any, *args: Any, **how: Any) -> Iterator[None]:
        self.may_be_cut = True
        yield from right(self, *args, **how)

    with patch.object(WindowByKey, "_emit", cut):
        yield


@mutation
def windows_fire_by_subtask_and_not_by_key_group() -> Iterator[None]:
    with patch.object(FiredTimes, "of", lambda self, keys: self.lowest):
        yield

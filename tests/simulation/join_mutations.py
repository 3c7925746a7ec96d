"""Bugs to plant in joins and in the state that they keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from mainstay.runtime.joins import Interval
from mainstay.runtime.operators.joins.base import Join
from mainstay.runtime.operators.joins.interval import IntervalJoin
from mainstay.runtime.operators.joins.sides import Kept
from mainstay.runtime.operators.joins.until import UntilJoin
from mainstay.state.backends.heap.rows import HeapRows
from tests.simulation.planting import each_step, planting

MUTATIONS, mutation = planting()


@mutation
def a_dropped_pane_leaves_no_drop() -> Iterator[None]:
    """So that its rows come back with a restore, and those without a match go out twice."""

    def forgetful(self: Any, pane: int) -> None:
        self._settle()
        self._panes.pop(pane, None)
        self._fresh.pop(pane, None)

    with patch.object(HeapRows, "drop_pane", forgetful):
        yield


@mutation
def that_a_row_has_matched_is_not_stored() -> Iterator[None]:
    with patch.object(Kept, "_note", lambda *arguments: None):
        yield


@mutation
def flags_of_restored_rows_are_not_read() -> Iterator[None]:
    def none(self: Any, chunk: Any, pane: int) -> Any:
        return np.zeros(len(chunk), np.bool_)

    with patch.object(Kept, "_stored_flags", none):
        yield


@mutation
def the_watermark_is_not_held_back() -> Iterator[None]:
    with patch.object(Join, "forwarded", lambda self, watermark: watermark):
        yield


@mutation
def a_pane_goes_a_microsecond_too_early() -> Iterator[None]:
    right = IntervalJoin.on_watermark

    reach = Interval.reach

    def short(interval: Any, side: int) -> int:
        return reach(interval, side) - 1

    def early(self: Any, watermark: Any) -> Iterator[None]:
        yield from each_step(right(self, watermark), Interval, "reach", short)

    with patch.object(IntervalJoin, "on_watermark", early):
        yield


@mutation
def rows_that_were_gathered_stay_behind_a_marker() -> Iterator[None]:
    with patch.object(Join, "before_marker", lambda self, epoch: None):
        yield


@mutation
def right_rows_match_what_has_ended() -> Iterator[None]:
    with patch.object(UntilJoin, "found", IntervalJoin.found):
        yield


@mutation
def panes_of_ends_are_those_of_times() -> Iterator[None]:
    """So that a left row goes before it has ended."""
    with patch.object(UntilJoin, "panes_of", IntervalJoin.panes_of):
        yield


@mutation
def the_watermark_is_not_held_back_for_ends_of_rows() -> Iterator[None]:
    with patch.object(UntilJoin, "forwarded", lambda self, watermark: watermark):
        yield

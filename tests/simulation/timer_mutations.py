"""Bugs to plant in timers, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from mainstay.runtime.operators import timed
from mainstay.runtime.operators.due import DueTimers
from mainstay.runtime.operators.timed import TimedFunction
from mainstay.state.backends.rocksdb.timer_order import TimerOrder
from mainstay.state.backends.rocksdb.timer_rows import TimerRows
from mainstay.state.backends.rocksdb.timers import CachedTimers
from mainstay.state.timer_handles import TimerHandle, TimersHandle
from mainstay.state.timer_index import TimerIndex
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def a_timer_that_has_fired_stays_in_the_state() -> Iterator[None]:
    with (
        patch.object(TimersHandle, "take", lambda self: self.index.poll()),
        patch.object(TimerHandle, "take", lambda self: self.index.poll()),
    ):
        yield


@mutation
def what_a_slice_gives_is_emitted_with_the_next() -> Iterator[None]:
    right, emit = TimedFunction._fire_all, TimedFunction.emit_rows

    def late(self: Any, *arguments: Any) -> Iterator[None]:
        held: list[Any] = []
        self.emit_rows = lambda *given: held.append(given)
        for _ in right(self, *arguments):
            before, held[:] = list(held), []
            yield
            for given in before:
                emit(self, *given)
        del self.emit_rows

    with patch.object(TimedFunction, "_fire_all", late):
        yield


@mutation
def timers_are_not_found_in_a_restored_state() -> Iterator[None]:
    with (
        patch.object(TimerHandle, "restore", lambda self, entries: None),
        patch.object(TimersHandle, "restore", lambda self, entries: None),
    ):
        yield


@mutation
def those_of_the_wall_clock_are_not_found_in_a_restored_state() -> Iterator[None]:
    rights = {TimerHandle: TimerHandle.restore, TimersHandle: TimersHandle.restore}

    def restore(self: Any, entries: Any) -> None:
        if self.domain == "event_time":
            rights[type(self)](self, entries)

    with (
        patch.object(TimerHandle, "restore", restore),
        patch.object(TimersHandle, "restore", restore),
    ):
        yield


@mutation
def all_that_is_due_leaves_the_state_before_the_first_fires() -> Iterator[None]:
    right = TimedFunction._fire_all

    def at_once(self: Any, due: DueTimers, domain: str, until_us: int) -> Iterator[None]:
        for handle in due._handles:
            index = handle.index
            if not isinstance(index, TimerIndex):
                continue
            waiting = [
                (handle, at, key)
                for at, bucket in index._buckets.items()
                if at <= until_us
                for key in (bucket if type(bucket) is dict else [bucket])
            ]
            for _, at, key in waiting:
                is_set = isinstance(handle, TimersHandle)
                handle._table.delete((key, timed.moment(at)) if is_set else key)
        yield from right(self, due, domain, until_us)

    with patch.object(TimedFunction, "_fire_all", at_once):
        yield


@mutation
def a_cut_ends_the_watermark_that_it_falls_into() -> Iterator[None]:
    right = TimedFunction.before_marker

    def before_marker(self: Any, epoch: Any) -> None:
        right(self, epoch)
        for handle in self.timers.event._handles:
            while (at := handle.due_us()) is not None and at <= (self._ctx.watermark_us or at - 1):
                handle.take()

    with patch.object(TimedFunction, "before_marker", before_marker):
        yield


@mutation
def a_replaced_timer_fires_all_the_same() -> Iterator[None]:
    with patch.object(TimerIndex, "remove", lambda self, at, key: True):
        yield


@mutation
def timers_fire_state_by_state() -> Iterator[None]:
    def first(self: Any) -> Any:
        times = ((handle.due_us(), handle) for handle in self._handles)
        return next(((at, handle) for at, handle in times if at is not None), None)

    with patch.object(DueTimers, "first", first):
        yield


@mutation
def the_wall_clock_does_not_ring() -> Iterator[None]:
    with (
        patch.object(TimedFunction, "is_due", lambda self: False),
        patch.object(TimedFunction, "on_clock", lambda self: iter(())),
    ):
        yield


# ---------------------------------------------------------------- in the order of a database


@mutation
def what_the_database_gets_is_not_looked_for_where_it_was_read() -> Iterator[None]:
    with patch.object(TimerOrder, "_is_stored", lambda self, index: None):
        yield


@mutation
def the_order_does_not_know_of_changes_that_wait_for_the_database() -> Iterator[None]:
    with patch.object(CachedTimers, "is_pending", lambda self: lambda at, key: False):
        yield


@mutation
def the_time_that_a_timer_had_stays_in_the_order() -> Iterator[None]:
    right = TimerRows.changes

    def changes(self: Any, database: Any, found: Any) -> Any:
        order, added = right(self, database, found)
        return {key: cell for key, cell in order.items() if cell is not None}, added

    with patch.object(TimerRows, "changes", changes):
        yield


@mutation
def the_head_is_taken_for_all_there_is() -> Iterator[None]:
    right = TimerOrder._read_on

    def read_on(self: Any) -> None:
        if self._head.first() is None:
            right(self)

    with patch.object(TimerOrder, "_read_on", read_on):
        yield


@mutation
def the_order_of_rows_that_move_to_another_subtask_is_not_made() -> Iterator[None]:
    with patch.object(TimerRows, "with_order", lambda self, rows: rows):
        yield

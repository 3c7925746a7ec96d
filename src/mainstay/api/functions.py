"""The classes a job's author writes: functions with managed state.

States are class attributes; what ``process`` yields or returns goes downstream::

    class RunningTotal(KeyedProcess):
        total = ReducingState("long", operator.add)

        def process(self, row, ctx):
            self.total.add(row.amount)
            yield ctx.key, self.total.get()

The runtime pickles an instance, ships it, and calls ``open`` once on each subtask after state is
restored; every other method is called by one thread. Fields that are not declared as state are
not part of snapshots.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import pyarrow as pa

from mainstay.runtime.operators.keyed import GroupedBatch
from mainstay.runtime.operators.window_results import WindowBounds, WindowRows
from mainstay.runtime.row_context import ProcessContext


class Function:
    """The hooks that all functions have. Subclass one of those below, not this."""

    def open(self, ctx: ProcessContext) -> None:
        """Called once, with state restored, before any row. Open connections here."""

    def on_snapshot(self, epoch: int) -> None:
        """Called when an epoch is cut, after the last row that belongs to it.

        Operator state that is written here is part of the epoch. There is no current key.
        """

    def on_snapshot_aborted(self, epoch: int) -> None:
        """Called when an epoch was given up, after ``on_snapshot`` or without it. What it was to
        hold goes with the next one. Calls may be skipped."""

    def on_snapshot_complete(self, epoch: int) -> None:
        """Called after an epoch is committed. Calls may be skipped; a later one covers earlier."""

    def close(self) -> None:
        """Called when the job ends in good order: finished, stopped or rescaled; only then.

        What it raises is logged, and changes nothing about the result.
        """


class Process(Function):
    """A function of a row, without a key; may declare ``OperatorListState``."""

    def process(self, row: Any, ctx: ProcessContext) -> Any:
        """Yield rows, or return a row, a list of rows, or None."""
        raise NotImplementedError(f"{type(self).__name__} needs a process(self, row, ctx) method")


class KeyedProcess(Function):
    """A function of a row and the state of its key, which is in ``ctx.key``.

    With ``class Fraud(KeyedProcess, compiled=True)`` its ``process`` runs as machine code over
    columns, with the same results.
    """

    is_compiled: ClassVar[bool] = False

    def __init_subclass__(cls, *, compiled: bool | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if compiled is not None:
            cls.is_compiled = compiled

    def process(self, row: Any, ctx: ProcessContext) -> Any:
        """Yield rows, or return a row, a list of rows, or None."""
        raise NotImplementedError(f"{type(self).__name__} needs a process(self, row, ctx) method")

    def on_timer(self, at: datetime, ctx: ProcessContext) -> Any:
        """Called when a timer of ``ctx.key`` is due, with the time that it was set to.

        ``ctx.timer`` is the name of the timer that fires, None if it was set by ``ctx.timers``.
        Yields or returns rows, as ``process`` does. Without this method there are no timers.
        """
        raise NotImplementedError(f"{type(self).__name__} needs on_timer(self, at, ctx)")


class KeyedBatchProcess(Function):
    """A function of a batch of rows grouped by key, with bulk access to the states."""

    def process(self, batch: GroupedBatch, ctx: ProcessContext) -> Any:
        """Return a ``pyarrow.RecordBatch``, rows, or None; or yield rows.

        Read and write states with ``get_many`` and ``put_many``; there is no current key.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a process(self, batch, ctx) method")

    def on_timers(self, keys: list[Any], times: pa.Array, ctx: ProcessContext) -> Any:
        """Called when timers are due: the keys that have them, and their times as a column.

        All are of one declared timer, whose name is ``ctx.timer``, in the order of their times.
        Returns what ``process`` does. Without this method there are no timers.
        """
        raise NotImplementedError(f"{type(self).__name__} needs on_timers(self, keys, times, ctx)")


class CoProcess(Function):
    """A function of two inputs without a key; may declare ``OperatorListState``, and
    ``BroadcastMapState`` where one of them is broadcast."""

    def process_left(self, row: Any, ctx: ProcessContext) -> Any:
        """Called for each row of the left input; yields or returns rows."""
        raise NotImplementedError(f"{type(self).__name__} needs process_left(self, row, ctx)")

    def process_right(self, row: Any, ctx: ProcessContext) -> Any:
        """The same for the right input."""
        raise NotImplementedError(f"{type(self).__name__} needs process_right(self, row, ctx)")


class CoKeyedProcess(Function):
    """A function of two inputs that share the state of a key.

    Where the right input is broadcast it has no key: ``process_right`` may change a
    ``BroadcastMapState`` and operator state (declared with ``redistribute="broadcast"``), but no
    keyed state.
    """

    def process_left(self, row: Any, ctx: ProcessContext) -> Any:
        """Called for each row of the left input; yields or returns rows."""
        raise NotImplementedError(f"{type(self).__name__} needs process_left(self, row, ctx)")

    def process_right(self, row: Any, ctx: ProcessContext) -> Any:
        """The same for the right input."""
        raise NotImplementedError(f"{type(self).__name__} needs process_right(self, row, ctx)")

    def on_timer(self, at: datetime, ctx: ProcessContext) -> Any:
        """Called when a timer of ``ctx.key`` is due, as that of a :class:`KeyedProcess` is."""
        raise NotImplementedError(f"{type(self).__name__} needs on_timer(self, at, ctx)")


class MultiProcess(Function):
    """A function of several inputs, which ``env.connect(orders=..., refunds=...)`` names.

    It has a method for each of them, such as ``process_orders(self, row, ctx)`` and
    ``process_refunds(self, row, ctx)``, which yields or returns rows. Where inputs are keyed they
    share the state of a key; rows of those that are broadcast have none.
    """

    def on_timer(self, at: datetime, ctx: ProcessContext) -> Any:
        """Called when a timer of ``ctx.key`` is due, as that of a :class:`KeyedProcess` is."""
        raise NotImplementedError(f"{type(self).__name__} needs on_timer(self, at, ctx)")


class WindowProcess(Function):
    """A function of all rows of a key in a window, called when the window is complete."""

    def process(self, rows: WindowRows, window: WindowBounds, ctx: ProcessContext) -> Any:
        """Yield rows, or return a row, a list of rows, or None.

        ``rows`` is a sequence of rows, in the order in which they came; ``rows.batch`` is a
        ``pyarrow.RecordBatch`` of the same. ``window.start`` and ``window.end`` are its bounds, and
        the key is in ``ctx.key``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} needs a process(self, rows, window, ctx) method"
        )

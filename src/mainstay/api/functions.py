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

from typing import Any

from mainstay.runtime.operators.keyed import GroupedBatch
from mainstay.runtime.row_context import ProcessContext


class Function:
    """The hooks that all functions have. Subclass one of those below, not this."""

    def open(self, ctx: ProcessContext) -> None:
        """Called once, with state restored, before any row. Open connections here."""

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
    """A function of a row and the state of its key, which is in ``ctx.key``."""

    def process(self, row: Any, ctx: ProcessContext) -> Any:
        """Yield rows, or return a row, a list of rows, or None."""
        raise NotImplementedError(f"{type(self).__name__} needs a process(self, row, ctx) method")


class KeyedBatchProcess(Function):
    """A function of a batch of rows grouped by key, with bulk access to the states."""

    def process(self, batch: GroupedBatch, ctx: ProcessContext) -> Any:
        """Return a ``pyarrow.RecordBatch``, rows, or None; or yield rows.

        Read and write states with ``get_many`` and ``put_many``; there is no current key.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a process(self, batch, ctx) method")


class CoKeyedProcess(Function):
    """A function of two inputs that share the state of a key.

    Where the right input is broadcast it has no key: ``process_right`` may change operator state
    (declared with ``redistribute="broadcast"``) but no keyed state.
    """

    def process_left(self, row: Any, ctx: ProcessContext) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs process_left(self, row, ctx)")

    def process_right(self, row: Any, ctx: ProcessContext) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs process_right(self, row, ctx)")

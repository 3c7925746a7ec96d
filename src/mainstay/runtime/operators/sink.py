"""The sink operator: writes, prepares with the snapshot, commits when it is complete.

A handle stays in the operator's state, and so in every later snapshot, until its commit is
confirmed. A failed epoch aborts nothing: its handles go with the next one. Handles found in a
restored snapshot belong to a completed epoch and are committed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, SinkError
from mainstay.runtime.connector import Sink, SinkContext
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator, OperatorContext
from mainstay.runtime.retry import Retry
from mainstay.state.declaration import OperatorListState, StateInfo

MAX_BEHIND = 4
"""Completed epochs that may wait for their commit before the sink stops taking rows."""


class SinkState:
    """The one state a sink has: handles whose commit is not confirmed."""

    handles = OperatorListState("struct<epoch:long,handle:binary>", redistribute="split")


HANDLES: StateInfo = SinkState.__dict__["handles"].info()


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A handle and the epoch it was prepared for."""

    epoch: int
    handle: bytes


class SinkOperator(Operator):
    """The end of a chain."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._prepared: list[Prepared] = []
        self._complete = Epoch(0)
        self._confirmed = Epoch(0)
        self._committing = False
        self._retry = Retry()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._state = context.lists[HANDLES.name]
        self._prepared = [Prepared(unit.epoch, unit.handle) for unit in self._state.get()]
        self._writer = self._sink.open(
            SinkContext(context.uid, context.subtask, context.attempt, context.lineage)
        )
        if self._prepared:
            self._complete = Epoch(max(prepared.epoch for prepared in self._prepared))
            if not self._sink.is_global:
                self._commit()

    @property
    def is_behind(self) -> bool:
        """Whether so many completed epochs wait for the target that no more rows are taken."""
        waiting = {prepared.epoch for prepared in self._prepared}
        return len([epoch for epoch in waiting if epoch <= self._complete]) > MAX_BEHIND

    @property
    def confirmed(self) -> Epoch:
        """The last epoch up to which everything is known to be committed."""
        return self._confirmed

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            self._writer.write(batch)
        except Exception as error:
            raise self._broken("written", error) from error

    def before_marker(self, epoch: Epoch) -> None:
        try:
            handle = self._writer.prepare(epoch)
        except Exception as error:
            raise self._broken("prepared", error) from error
        if handle is not None:
            self._prepared.append(Prepared(epoch, handle))
        self._state.update([(prepared.epoch, prepared.handle) for prepared in self._prepared])

    def on_complete(self, epoch: Epoch) -> None:
        self._complete = max(self._complete, epoch)
        if not self._sink.is_global:
            self._commit()

    def on_committed(self, epoch: Epoch) -> None:
        """The coordinator has committed a global sink up to this epoch."""
        self._prepared = [prepared for prepared in self._prepared if prepared.epoch > epoch]
        self._confirm(epoch)

    def _commit(self) -> None:
        """Commit everything that a completed epoch covers, one call at a time."""
        if self._committing or self._retry.is_waiting:
            return
        epoch = self._complete
        due = [prepared for prepared in self._prepared if prepared.epoch <= epoch]
        if not due:
            self._confirm(epoch)
            return
        self._committing = True
        handles = [prepared.handle for prepared in due]

        def done(_: Any) -> None:
            self._committing = False
            self._retry.succeeded()
            self._prepared = [p for p in self._prepared if p not in due]
            self._confirm(epoch)
            if self._complete > epoch:
                self._commit()

        self.context.background.submit(lambda: self._sink.commit(handles), done, self._failed)

    def _confirm(self, epoch: Epoch) -> None:
        if epoch > self._confirmed:
            self._confirmed = epoch

    def _failed(self, error: Exception) -> None:
        # Whether the commit was done is unknown; doing it again is always right.
        self._committing = False
        self._retry.failed(self.context.clock.monotonic())
        if self._retry.is_hopeless:
            self.context.fail(self._broken("committed", error))

    def tick(self, now: float) -> bool:
        if not self._retry.is_due(now):
            return False
        self._commit()
        return True

    def deadline(self) -> float | None:
        return self._retry.at

    def _broken(self, verb: str, error: Exception) -> Exception:
        if isinstance(error, MainstayError):
            return error
        return SinkError(
            f"sink {self.context.uid!r}, subtask {self.context.subtask} cannot be {verb}: "
            f"{type(error).__name__}: {error}"
        )

    def close(self) -> None:
        self._writer.close()

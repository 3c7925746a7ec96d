"""The sink operator: writes, prepares with the snapshot, commits when it is complete.

A handle stays in the operator's state, and so in every later snapshot, until its commit is
confirmed. A failed epoch aborts nothing: its handles go with the next one. Handles found in a
restored snapshot belong to a completed epoch and are committed at once. A commit that fails is
tried again until it works.

States that the sink's class declares are cut with the handles (``sink_states``).

What a writer has deferred runs in the background, in order. A cut waits for everything that was
deferred before it. When a piece of that fails, the cuts that wait for it are given up, and the
next one waits for it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, SinkError
from mainstay.runtime.connector import Sink, SinkContext
from mainstay.runtime.connector_errors import of_connector
from mainstay.runtime.deferred import Late, Units
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.backlog import Backlog
from mainstay.runtime.operators.base import Operator, OperatorContext
from mainstay.runtime.operators.sink_states import SinkStates
from mainstay.runtime.own_states import HANDLES
from mainstay.runtime.retry import Retry, may_heal
from mainstay.runtime.status import Problem
from mainstay.state.keyed import frozen_elements
from mainstay.tracebacks import pass_on_interrupt

MAX_BEHIND = 4
"""Completed epochs that may wait for their commit before the sink stops taking rows."""


@dataclass(slots=True, eq=False)
class Prepared:
    """A handle and the epoch it was prepared for; None until it is known."""

    epoch: int
    handle: bytes | None


class SinkOperator(Operator):
    """The end of a chain."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._prepared: list[Prepared] = []
        self._late: list[tuple[int, Late]] = []
        self._complete = Epoch(0)
        self._confirmed = Epoch(0)
        self._due = Epoch(0)
        self._committing = False
        self._retry = Retry()
        self._backlog = Backlog(self._settle, self._on_backlog_failure)
        self._own_states = SinkStates()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._state = context.lists[HANDLES.name]
        self._prepared = [Prepared(unit.epoch, unit.handle) for unit in self._state.get()]
        self._backlog.open(context.background, context.clock)
        where = SinkContext(context.uid, context.subtask, context.attempt, context.lineage)
        self._own_states.bind(self._sink, context)
        try:
            with self._own_states.in_call():
                self._writer = self._sink.open(where)
        except BaseException as error:
            raise self._broken("opened", error) from error
        if self._prepared:
            self._complete = Epoch(max(prepared.epoch for prepared in self._prepared))
            if not self._sink.is_global:
                self._commit()

    # ------------------------------------------------------------ how it stands

    @property
    def is_behind(self) -> bool:
        """Whether too much waits for the target to take more rows."""
        if len(self._prepared) <= MAX_BEHIND:
            return self._backlog.is_full
        complete = {each.epoch for each in self._prepared if each.epoch <= self._complete}
        return self._backlog.is_full or len(complete) > MAX_BEHIND

    @property
    def confirmed(self) -> Epoch:
        """The last epoch up to which everything is known to be committed."""
        return self._confirmed

    def problem(self, now: float) -> Problem | None:
        """What keeps the target from confirming or taking rows."""
        if self._retry.since is None and self._backlog.retry.since is None:
            return None
        subject = f"sink {self.context.uid!r}, subtask {self.context.subtask}"
        return self._retry.problem(
            subject, f"has not confirmed epoch {self._due}", now
        ) or self._backlog.retry.problem(subject, "has not written its rows", now)

    # ------------------------------------------------------------ rows and snapshots

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            with self._own_states.in_call():
                deferred = self._writer.write(batch)
        except BaseException as error:
            raise self._broken("written", error) from error
        if deferred is not None:
            self._backlog.add(deferred, lambda _: None)

    def before_marker(self, epoch: Epoch) -> None:
        try:
            with self._own_states.in_call():
                handle = self._writer.prepare(epoch)
        except BaseException as error:
            raise self._broken("prepared", error) from error
        if callable(handle):
            prepared = Prepared(epoch, None)
            self._prepared.append(prepared)
            self._backlog.add(handle, lambda known: self._learn(prepared, known))
        elif handle is not None:
            self._prepared.append(Prepared(epoch, handle))
        self._backlog.hurry()
        self._state.update(_units_of(self._prepared))

    def late(self) -> Late | None:
        """What the cut that was just taken waits for: everything that was deferred so far."""
        if self._backlog.done == self._backlog.added:
            return None
        cut = list(self._prepared)
        late = Late(lambda: _late_units(cut))
        self._late.append((self._backlog.added, late))
        return late

    def _learn(self, prepared: Prepared, handle: bytes | None) -> None:
        prepared.handle = handle
        if handle is None:
            self._prepared.remove(prepared)

    def _settle(self) -> None:
        """The cuts whose work is done are whole."""
        done = self._backlog.done
        for added, late in self._late:
            late.is_known = added <= done
        self._late = [(added, late) for added, late in self._late if added > done]

    def _on_backlog_failure(self, error: Exception) -> None:
        broken = self._broken("written", error)
        if not may_heal(error):
            self.context.fail(broken)
        for _, late in self._late:
            late.failure = str(broken)
        self._late = []

    # ------------------------------------------------------------ commits

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
        if self._retry.since is None:
            self._due = epoch
        self._retry.began(self.context.clock.monotonic())
        handles = [prepared.handle for prepared in due if prepared.handle is not None]
        assert len(handles) == len(due), f"epoch {epoch} is complete before its handles are known"

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
        self._retry.failed(self.context.clock.monotonic(), error)
        if not may_heal(error):
            self.context.fail(self._broken("committed", error))

    # ------------------------------------------------------------ time and ends

    def tick(self, now: float) -> bool:
        has_hurried = self._backlog.tick(now)
        if not self._retry.is_due(now):
            return has_hurried
        self._commit()
        return True

    def deadline(self) -> float | None:
        times = [time for time in (self._retry.at, self._backlog.retry.at) if time is not None]
        return min(times, default=None)

    def _broken(self, verb: str, error: BaseException) -> Exception:
        pass_on_interrupt(error)
        if isinstance(error, MainstayError):
            return error
        uid, subtask = self.context.uid, self.context.subtask
        what = f"sink {uid!r}, subtask {subtask} cannot be {verb}"
        return of_connector(SinkError, what, error, uid, subtask)

    def release(self) -> None:
        # A worker may end before it was opened.
        writer = getattr(self, "_writer", None)
        if writer is None:
            return
        try:
            writer.close()
        except BaseException as error:
            raise self._broken("closed", error) from error


def _units_of(prepared: list[Prepared]) -> list[tuple[int, bytes]]:
    return [(each.epoch, each.handle) for each in prepared if each.handle is not None]


def _late_units(prepared: list[Prepared]) -> Units:
    """The handles of a cut, in the form that the state keeps them in."""
    return {HANDLES.name: frozen_elements(HANDLES, _units_of(prepared))}

"""Operators: the links of a chain. A batch goes in, batches come out by a function call.

An operator is driven by one thread: ``open`` once, then ``process`` and the snapshot calls in
any order, ``end_of_input`` at most once per attempt, ``close`` in good order, ``release`` last. It
may be ended without either at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, UserFunctionError
from mainstay.runtime.late import Late
from mainstay.runtime.messages import Epoch
from mainstay.runtime.ports import Background, Clock
from mainstay.runtime.tracebacks import has_own_frames, own_traceback
from mainstay.snapshot.operator_files import OperatorFiles
from mainstay.state.backends.heap import HeapBackend
from mainstay.state.keyed import KeyContext
from mainstay.state.operator import OperatorList

Emit = Callable[[pa.RecordBatch], None]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """Where an operator runs and what it may use."""

    uid: str
    subtask: int
    parallelism: int
    attempt: int
    lineage: str
    clock: Clock
    background: Background
    fail: Callable[[Exception], None]
    keyed: HeapBackend | None = None
    key_context: KeyContext | None = None
    lists: dict[str, OperatorList] = field(default_factory=dict)
    files: OperatorFiles | None = None


class ProcessContext(KeyContext):
    """What a function of the job's author learns about the row at hand."""

    __slots__ = ("parallelism", "subtask", "uid", "watermark_us")

    def __init__(self, uid: str, subtask: int, parallelism: int) -> None:
        super().__init__()
        self.uid = uid
        self.subtask = subtask
        self.parallelism = parallelism
        self.watermark_us: int | None = None

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come: rows older than this are late. None while unknown."""
        if self.watermark_us is None:
            return None
        return _EPOCH + timedelta(microseconds=self.watermark_us)


class Operator:
    """The base of all operators. ``out`` is set before ``open``."""

    context: OperatorContext
    out: Emit
    max_slice_rows: int | None = None
    """How many rows it may be given at a time, where it calls a function for each of them. It takes
    them through ``pieces``, which may end before they do."""
    pieces: Callable[[Iterable[Any]], Iterable[Any]] = staticmethod(lambda rows: rows)

    def open(self, context: OperatorContext) -> None:
        """State is restored by now."""
        self.context = context

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        raise NotImplementedError

    def flush(self, *, idle: bool = True) -> bool:
        """Emit what is held back; True if anything was. Called when the worker is idle, and every
        few milliseconds when it is not: then it may be put off."""
        return False

    def before_marker(self, epoch: Epoch) -> None:
        """The last chance to emit rows that belong to the epoch, and to write state."""

    def late(self) -> Late | None:
        """What the cut that was just taken waits for beside the loop; None if it is whole."""
        return None

    def on_abort(self, epoch: Epoch) -> None:
        """The epoch was given up; what it was to hold goes with the next one."""

    def on_complete(self, epoch: Epoch) -> None:
        """The epoch, and every one before it, is committed in the log."""

    def end_of_input(self) -> None:
        """All input has been processed. May emit; must be harmless when done again."""

    def tick(self, now: float) -> bool:
        """Called on every pass of the loop; True if something was done."""
        return False

    def deadline(self) -> float | None:
        """When ``tick`` will next have something to do without a message arriving."""
        return None

    def close(self) -> None:
        """The job ends in good order: it has finished, was stopped, or is rescaled."""

    def release(self) -> None:
        """The worker ends, in whatever order: give back what is held. Comes after ``close``."""


def user_error(context: OperatorContext, error: BaseException, hook: str = "") -> Exception:
    """What user code raised, with the operator, the subtask and the user's own traceback."""
    if isinstance(error, UserFunctionError):
        return error
    if isinstance(error, MainstayError) and not has_own_frames(error):
        return error
    summary = f"{type(error).__name__}: {error}".removesuffix(": ")
    text = own_traceback(error)
    raised = UserFunctionError(context.uid, context.subtask, summary, text, hook)
    raised.original = error
    raised.is_final = isinstance(error, MainstayError) and error.is_final
    return raised


def bind_states(function: Any, context: OperatorContext) -> None:
    """Put handles in the place of the declarations, on this instance of the function."""
    handles: dict[str, Any] = dict(context.lists)
    if context.keyed is not None:
        handles.update(context.keyed.handles)
    # Not by assignment, which a declaration refuses.
    vars(function).update(handles)

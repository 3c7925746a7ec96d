"""Operators: the links of a chain. A batch goes in, batches come out by a function call.

An operator is driven by one thread: ``open`` once, then ``process`` and the snapshot calls in
any order, ``end_of_input`` at most once per attempt, ``close`` in good order, ``release`` last. It
may be ended without either at any moment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, SchemaError, UserFunctionError
from mainstay.runtime.deferred import Late
from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.ports import Background, Clock
from mainstay.runtime.row_context import ProcessContext, meant_of_ctx
from mainstay.runtime.status import Problem
from mainstay.snapshot.operator_files import OperatorFiles
from mainstay.state.backends.contract import KeyedBackend, Work
from mainstay.state.operator import OperatorList
from mainstay.tracebacks import has_own_frames, own_traceback, pass_on_interrupt, place_of

Emit = Callable[[pa.RecordBatch], None]

SEVERAL_ROWS = (
    ". A list that process or flat_map returns is several rows: for one row, return a tuple, a "
    "dict or a Row"
)


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
    row_context: ProcessContext
    """What the author's function is given with each row: the same object for every call."""
    keyed: KeyedBackend | None = None
    lists: dict[str, OperatorList] = field(default_factory=dict)
    files: OperatorFiles | None = None


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

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        """What is to be done in the background before it takes a batch; None if nothing is."""
        return None

    def flush(self, *, idle: bool = True) -> bool:
        """Emit what is held back; True if anything was. Called when the worker is idle, and every
        few milliseconds when it is not: then it may be deferred."""
        return False

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        """Event time moves on. May emit, a little at a time: the task does one slice after the
        other until the iterator is at its end, and takes neither rows nor markers meanwhile.

        Operators further down the chain hear of it when all rows emitted here are processed. Its
        time may be that of the one before, where an input turns idle, and None while it is unknown.
        One that overrides this begins with ``yield from super().on_watermark(watermark)``: what is
        held back is emitted, and ``ctx.watermark`` moves.
        """
        self.flush()
        self.context.row_context.watermark_us = watermark.time_us
        return iter(())

    def before_marker(self, epoch: Epoch) -> None:
        """The last chance to emit rows that belong to the epoch, and to write state."""

    def late(self) -> Late | None:
        """The deferred part of the cut that was just taken; None if it has none."""
        return None

    def on_abort(self, epoch: Epoch) -> None:
        """The epoch was given up; what it was to hold goes with the next one."""

    def on_complete(self, epoch: Epoch) -> None:
        """The epoch, and every one before it, is committed in the log."""

    def on_committed(self, epoch: Epoch) -> None:
        """The coordinator has committed a global sink up to this epoch."""

    def end_of_input(self) -> None:
        """All input has been processed, and the last watermark too. May emit; must be harmless
        when done again."""

    def tick(self, now: float) -> bool:
        """Called on every pass of the loop; True if something was done."""
        return False

    def deadline(self) -> float | None:
        """When ``tick`` will next have something to do without a message arriving."""
        return None

    @property
    def is_behind(self) -> bool:
        """Whether its task may take no more rows for now."""
        return False

    @property
    def confirmed(self) -> Epoch | None:
        """The last epoch up to which everything is known to be committed; None if it is no sink."""
        return None

    def problem(self, now: float) -> Problem | None:
        """What outside the job keeps it from its work, if anything does."""
        return None

    def join_loop(self, head: Operator) -> None:
        """It is one of the two ends of a loop, and this is the head. Comes before ``open``."""

    def close(self) -> None:
        """The job ends in good order: it has finished, was stopped, or is rescaled."""

    def release(self) -> None:
        """The worker ends, in whatever order: give back what is held. Comes after ``close``."""


def user_error(
    context: OperatorContext,
    error: BaseException,
    hook: str = "",
    function: Any = None,
    *,
    may_list: bool = False,
) -> Exception:
    """What user code raised, with the operator, the subtask and the user's own traceback.

    ``function`` is the author's, where what it gave may be wrong and no frame says so. With
    ``may_list`` it may have returned several rows as a list.
    """
    pass_on_interrupt(error)
    if isinstance(error, UserFunctionError):
        return error
    if isinstance(error, MainstayError) and not has_own_frames(error):
        return _placed(error, function, may_list)
    summary = f"{type(error).__name__}: {error}".removesuffix(": ") + meant_of_ctx(error)
    text = own_traceback(error)
    raised = UserFunctionError(context.uid, context.subtask, summary, text, hook)
    raised.original = error
    raised.is_final = isinstance(error, MainstayError) and error.is_final
    return raised


def _placed(error: MainstayError, function: Any, may_list: bool) -> MainstayError:
    """An error of a row with the place of the function that gave it."""
    place = "" if function is None else place_of(function)
    if not isinstance(error, SchemaError) or not place:
        return error
    is_several = may_list and error.is_no_row and not inspect.isgeneratorfunction(function)
    hint = SEVERAL_ROWS if is_several else ""
    return SchemaError(f"{error}{hint}\n{place}")


def bind_states(function: Any, context: OperatorContext) -> None:
    """Put handles in the place of the declarations, on this instance of the function."""
    handles: dict[str, Any] = dict(context.lists)
    if context.keyed is not None:
        handles.update(context.keyed.handles)
    # Not by assignment, which a declaration refuses.
    vars(function).update(handles)

"""Operators: the links of a chain. A batch goes in, batches come out by a function call.

An operator is driven by one thread: ``open`` once, then ``process`` and the snapshot calls in
any order, ``end_of_input`` at most once per attempt, ``close`` in good order, ``release`` last. It
may be ended without either at any moment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from mainstay.errors import MainstayError, SchemaError, UserFunctionError, named
from mainstay.runtime.compiled.kernels import Kernels
from mainstay.runtime.deferred import Late
from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.ports import Background, Calls, Clock, one_thread
from mainstay.runtime.row_context import ProcessContext, meant_of_ctx
from mainstay.runtime.status import Problem
from mainstay.snapshot.operator_files import OperatorFiles
from mainstay.state.backends.contract import KeyedBackend, Work
from mainstay.state.broadcast import BroadcastMap
from mainstay.state.keygroups import KeyGroupRange
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
    groups: KeyGroupRange = field(default_factory=KeyGroupRange.empty)
    """The key-groups that the subtask owns."""
    max_parallelism: int = 0
    caller: Callable[[], int] = one_thread
    """Which thread this is called in, as a number."""
    calls: Calls | None = None
    broadcast: dict[str, BroadcastMap] = field(default_factory=dict)
    kernels: Kernels | None = None
    """What makes machine code of compiled functions; None where they are interpreted."""


class Operator:
    """The base of all operators. ``out`` and ``sides`` are set before ``open``."""

    context: OperatorContext
    out: Emit
    sides: Mapping[str, Emit] = MappingProxyType({})
    """A way out for each of its side outputs, by name. What nobody reads is counted and dropped."""
    max_slice_rows: int | None = None
    """How many rows it may be given at a time, where it calls a function for each of them. It takes
    them through ``pieces``, which may end before they do."""
    slice_s: float = 0.0
    """How long it computes for a slice at least, where a slice has a price of its own that is high
    beside that of its rows."""
    pieces: Callable[[Iterable[Any]], Iterable[Any]] = staticmethod(lambda rows: rows)
    late_rows: int = 0
    """How many rows came too late for all that they were meant for, or had no time."""
    may_be_cut: bool = False
    """Whether a marker may pass between two slices of ``on_watermark`` and ``on_clock``. It may
    where its state says all by then: what was emitted has left the state, and what is still to be
    done is done when the same watermark comes again, as it does after a restore."""

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

    def forwarded(self, watermark: TimeMark) -> TimeMark:
        """The watermark that goes on behind this operator, once it has taken one.

        An operator that emits rows older than the watermark holds it back by as much. It never
        goes back, and the last one goes on as it is.
        """
        return watermark

    @property
    def is_waiting(self) -> bool:
        """Whether what it has under way waits for the background: the next slice comes when that
        has reported. It is looked at between two slices of ``on_watermark`` and ``before_end``."""
        return False

    def is_due(self) -> bool:
        """Whether ``on_clock`` has something to do: a time of the wall clock has come."""
        return False

    def on_clock(self) -> Iterator[None]:
        """Do what the wall clock brings about, a slice at a time, as ``on_watermark`` does. It is
        called when ``is_due``, between slices of rows and before any new ones; not after the end of
        input. ``deadline`` says when that will be."""
        return iter(())

    def on_port_end(self, port: int) -> Iterator[None]:
        """All channels of one of its inputs have ended. May emit, a slice at a time, as
        ``on_watermark`` does. It is for the head of a chain."""
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

    def before_end(self) -> Iterator[None]:
        """All input has been taken, and the last watermark too: do what is still to be done before
        ``end_of_input``, a slice at a time, as ``on_watermark`` does."""
        return iter(())

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
    def timer_counts(self) -> tuple[int, int] | None:
        """How many timers it holds, and how many have fired; None if it can have none."""
        return None

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


class Named(Protocol):
    """What an error of the author's code is told of: a subtask of an operator."""

    @property
    def uid(self) -> str: ...

    @property
    def subtask(self) -> int: ...


def user_error(
    context: Named,
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
    summary = named(error) + meant_of_ctx(error)
    text = own_traceback(error)
    raised = UserFunctionError(context.uid, context.subtask, summary, text, hook)
    raised.original = error
    # Errors that are those of another library by their class may say it, too.
    raised.is_final = getattr(error, "is_final", False) is True
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
    handles: dict[str, Any] = {**context.lists, **context.broadcast}
    if context.keyed is not None:
        handles.update(context.keyed.handles)
    # Not by assignment, which a declaration refuses.
    vars(function).update(handles)

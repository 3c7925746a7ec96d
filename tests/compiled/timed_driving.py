"""A function with timers as an operator, on any backend, with a clock and watermarks by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

import mainstay as ms
from mainstay.runtime.compiled.kernels import InterpretedKernels, Kernels
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.watermarks import LAST
from mainstay.runtime.worker.member import Member
from mainstay.schema import rows_to_batch, to_schema
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.keygroups import range_of
from mainstay.state.subtask import Owner
from mainstay.state.timer_handles import microseconds
from mainstay.testing import rows
from tests.compiled.driving import AtOnce, bits, told_rows
from tests.compiled.timed_written import GIVEN, TAKEN, Event

MOST = 16
WALL_S = 1_767_225_600.0
"""The clock begins where event time does, so that timers of either are due sooner or later."""


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL_S + self.now

    cpu = monotonic


@dataclass(frozen=True, slots=True)
class TimedOutcome:
    """What came of some events."""

    rows: tuple[tuple[str, ...], ...]
    states: tuple[Any, ...]
    held: int
    """How many timers there are in the order of times."""
    ignored: int
    error: tuple[str, str] | None


class TimedDriven:
    """One function as the only subtask of an operator."""

    def __init__(
        self, function: Any, backend: BackendSettings | None = None, kernels: Kernels | None = None
    ) -> None:
        env = ms.Environment(spark="embedded", parallelism=1)
        taken = env.source(rows(TAKEN, []), uid="in", watermark=ms.Watermark("at"))
        keyed = taken.key_by("k").process(function, schema=GIVEN, uid="f")
        keyed.sink(ms.connectors.Memory(), uid="out")
        spec: Any = next(spec for _, spec in env.plan().operators() if spec.uid == "f")
        groups, self.clock = range_of(0, 1, MOST), Clock()
        owner = Owner("f", 0, 1, groups, MOST, "job")
        self.member = Member(spec, owner, 1, backend or HeapSettings(), self.clock)
        self._schema = to_schema(TAKEN)
        self._emitted: list[pa.RecordBatch] = []
        self._open(owner, kernels or InterpretedKernels())

    def _open(self, owner: Owner, kernels: Kernels) -> None:
        member, unused, background = self.member, None, AtOnce()
        assert member.keyed is not None
        self.operator: Any = member.operator
        self.operator.out = self._emitted.append
        self.operator.open(
            OperatorContext(
                *("f", 0, 1, 1, "job", self.clock, background, unused, member.row_context),  # type: ignore[arg-type]
                member.keyed.backend,
                member.lists,
                None,
                owner.groups,
                MOST,
                kernels=kernels,
            )
        )

    def after(self, events: Sequence[Event]) -> TimedOutcome:
        """What came of these events, or of those before one that failed."""
        error = None
        for what, given in events:
            before = len(self._emitted)
            try:
                for _ in self._happens(what, given):
                    self.member.relieve()
            except Exception as raised:
                del self._emitted[before:]
                error = type(raised).__name__, str(raised)
                break
        timers = self.operator.timers
        states = () if error else self._states()
        return TimedOutcome(
            self._rows(), states, 0 if error else timers.held, 0 if error else timers.ignored, error
        )

    def _happens(self, what: str, given: Any) -> Iterator[None]:
        if what == "rows":
            self.operator.process(rows_to_batch(given, self._schema, "a test"), 0)
            self.operator.flush()
        elif what == "watermark":
            yield from self.operator.on_watermark(mark(given))
        else:
            self.clock.now += given
        if self.operator.is_due():
            yield from self.operator.on_clock()

    def _rows(self) -> tuple[tuple[str, ...], ...]:
        return told_rows(self._emitted)

    def _states(self) -> tuple[Any, ...]:
        assert self.member.keyed is not None
        backend = self.member.keyed.backend
        return tuple(
            (name, tuple(sorted((bits(key), bits(kept)) for key, kept in backend.entries(name))))
            for name in self.member.keyed.states
        )


def mark(at: datetime | None) -> TimeMark:
    return LAST if at is None else TimeMark(microseconds(at.astimezone(timezone.utc)))


def by_key(outcome: TimedOutcome) -> TimedOutcome:
    """The same with the rows of each key together: between keys that wait for the same time there
    is no order."""
    ordered = tuple(sorted(outcome.rows, key=lambda row: row[0]))
    return TimedOutcome(ordered, outcome.states, outcome.held, outcome.ignored, outcome.error)

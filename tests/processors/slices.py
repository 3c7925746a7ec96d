"""One operator of a job with a backend of its own, given rows a slice at a time.

What Spark calls a micro-batch is a slice here: all rows of ``take`` come together, and then timers
that are due fire. Time moves when a test moves it.

What a test does with it can be recorded, for another drive to do the same: ``recording``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.worker.member import Member
from mainstay.schema import rows_to_batch, to_schema
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.keygroups import range_of
from mainstay.state.subtask import Owner

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
START_MS = int(START.timestamp() * 1000)


class FakeClock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return START.timestamp() + self.now - 1_000.0

    cpu = monotonic


@dataclass(frozen=True, slots=True)
class Step:
    """What was done with an operator, and what it has emitted then."""

    found: tuple[tuple[Any, ...], ...]
    rows: tuple[Any, ...] = ()
    port: int = 0
    watermark_s: float | None = None
    waited_s: float = 0.0


class Recorded:
    """An operator of a test, which ``build`` makes of a stream that is keyed by ``key``, and what
    was done with it."""

    recorded: ClassVar[list[Recorded] | None] = None
    is_touched = False
    """Whether its states were changed behind the back of the operator."""

    def __init__(
        self,
        schema: str,
        key: str | Sequence[str],
        build: Callable[..., Any],
        *,
        time: str | None = None,
        initial: Callable[[Any], Any] | None = None,
    ) -> None:
        self.schema = to_schema(schema)
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.build, self.time, self.initial = build, time, initial
        self.steps: list[Step] = []
        if Recorded.recorded is not None:
            Recorded.recorded.append(self)

    @property
    def is_clock_moved(self) -> bool:
        """Whether time has passed otherwise than by ``wait``."""
        return False


class Slices(Recorded):
    """A keyed operator with a backend of its own."""

    def __init__(
        self,
        schema: str,
        key: str | Sequence[str],
        build: Callable[..., Any],
        *,
        time: str | None = None,
        initial: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(schema, key, build, time=time, initial=initial)
        env = ms.Environment(spark="embedded", parallelism=1, max_parallelism=16)
        watermark = None if time is None else ms.Watermark(time)
        source = env.source(ms.connectors.Rows(schema, []), uid="in", watermark=watermark)
        keyed = source.key_by(*self.key)
        stream = build(keyed) if initial is None else build(keyed, initial(env))
        stream.sink(ms.connectors.Memory(), uid="out")
        job = plan_of(env.graph())
        self.spec = next(spec for _, spec in job.operators() if spec.uid == "f")
        self.ports = {given.port: given.schema for given in self.spec.inputs}
        self.clock = FakeClock()
        groups = range_of(0, 1, 16)
        owner = Owner("f", 0, 1, groups, 16, "l")
        self.member = Member(self.spec, owner, 1, HeapSettings(), self.clock)
        self.operator: Any = self.member.operator
        self.emitted: list[tuple[Any, ...]] = []
        self.operator.out = self._emit
        assert self.member.keyed is not None
        self.operator.open(
            OperatorContext(
                *("f", 0, 1, 1, "l", self.clock, None, None, self.member.row_context),
                self.member.keyed.backend,
                self.member.lists,
                None,
                groups,
                16,
            )
        )

    def _emit(self, batch: pa.RecordBatch) -> None:
        self.emitted += [tuple(row.values()) for row in batch.to_pylist()]

    # ------------------------------------------------------------ what happens

    def take(self, *rows: Any, port: int = 0) -> list[tuple[Any, ...]]:
        """A slice; what it and the timers that are due have emitted."""
        self.operator.process(rows_to_batch(rows, self.ports[port], "test"), port)
        return self._noted(self.ring(), rows=rows, port=port)

    def ring(self) -> list[tuple[Any, ...]]:
        """Have timers fire that are due by now."""
        for _ in range(3):
            if not self.operator.is_due():
                break
            self._all(self.operator.on_clock())
        return self.taken()

    def wait(self, seconds: float) -> list[tuple[Any, ...]]:
        """Time passes, and nothing else happens."""
        self.clock.now += seconds
        return self._noted(self.ring(), waited_s=seconds)

    def watermark(self, at: datetime | float) -> list[tuple[Any, ...]]:
        seconds = at if isinstance(at, int | float) else at.timestamp()
        self._all(self.operator.on_watermark(TimeMark(int(seconds * 1_000_000))))
        return self._noted(self.ring(), watermark_s=seconds)

    def end_port(self, port: int) -> list[tuple[Any, ...]]:
        self._all(self.operator.on_port_end(port))
        return self._noted(self.ring())

    def marker(self, epoch: int = 1) -> list[tuple[Any, ...]]:
        self.operator.before_marker(epoch)
        return self.ring()

    def taken(self) -> list[tuple[Any, ...]]:
        found, self.emitted = self.emitted, []
        return found

    def _noted(self, found: list[tuple[Any, ...]], **step: Any) -> list[tuple[Any, ...]]:
        self.steps.append(Step(tuple(found), **step))
        return found

    @property
    def is_clock_moved(self) -> bool:
        waited = sum(step.waited_s for step in self.steps)
        return abs(self.clock.now - FakeClock().now - waited) > 1e-6

    @contextmanager
    def states_of(self, key: Any) -> Iterator[Any]:
        """The states of a key by name, to be changed behind the processor's back."""
        self.is_touched = True
        context = self.member.row_context
        context.key = context.current_key = key
        assert self.member.keyed is not None
        yield self.member.keyed.backend.handles
        context.leave()

    def state(self, name: str, key: Any) -> Any:
        assert self.member.keyed is not None
        return self.member.keyed.backend.peek(name, key)

    @staticmethod
    def _all(steps: Iterator[None]) -> None:
        for _ in steps:
            pass


@contextmanager
def recording() -> Iterator[list[Recorded]]:
    """All that are made within, with their steps."""
    Recorded.recorded = made = []
    try:
        yield made
    finally:
        Recorded.recorded = None


def seconds(at: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=at)


class InRows:
    """How a processor of the tests reads and yields rows; ``InPandas`` does the same with
    DataFrames."""

    in_pandas = False

    def values(self, rows: Any, column: str) -> list[Any]:
        return [row[column] for row in rows]

    def frames(self, rows: Any) -> int:
        return 1

    def initial(self, row: Any, column: str) -> list[Any]:
        return [row[column]]

    def out(self, **columns: Any) -> Any:
        return Row(**columns)


class InPandas:
    in_pandas = True

    def values(self, rows: Any, column: str) -> list[Any]:
        return [value for frame in rows for value in frame[column].tolist()]

    def initial(self, frame: Any, column: str) -> list[Any]:
        return list(frame[column].tolist())

    def out(self, **columns: Any) -> Any:
        return pd.DataFrame({name: [value] for name, value in columns.items()})


VARIANTS = (InRows, InPandas)


def variant(processor: type, how: type) -> Any:
    """A processor of the tests in one of the two variants."""
    return type(processor.__name__, (processor, how), {"__module__": processor.__module__})

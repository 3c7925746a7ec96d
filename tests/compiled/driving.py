"""A function, compiled and not, over the same batches: what each gave, keeps, or failed with.

Both are operators of a plan, each with a heap of its own, so that a trial takes milliseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import mainstay as ms
from mainstay.runtime.compiled.kernels import InterpretedKernels, Kernels
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.row_context import ProcessContext
from mainstay.schema import values_of
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.testing import rows
from mainstay.testing.processes import SimulatedClock


class AtOnce:
    """Background work that is done where it is asked for."""

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        done(work())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of some batches: the rows, the states behind them, or an error."""

    rows: tuple[Any, ...]
    states: tuple[Any, ...]
    error: tuple[str, str] | None


class Driven:
    """One function as an operator."""

    def __init__(
        self,
        function: Any,
        taken: Any,
        key: Sequence[str],
        given: Any,
        kernels: Kernels | None = None,
    ) -> None:
        env = ms.Environment(spark="embedded", parallelism=1)
        keyed = env.source(rows(taken, []), uid="in").key_by(*key)
        keyed.process(function, schema=given, uid="f").sink(ms.connectors.Memory(), uid="out")
        spec: Any = next(spec for _, spec in env.plan().operators() if spec.uid == "f")
        context = ProcessContext("f", 0, 1)
        self._names = [info.name for info in spec.states]
        self._keyed = HeapBackend(spec.states, spec.key.type, 128, context)
        self.operator: Any = spec.factory.build()
        self._emitted: list[pa.RecordBatch] = []
        self.operator.out = self._emitted.append
        unused: Any = None
        background: Any = AtOnce()
        self.operator.open(
            OperatorContext(
                "f",
                0,
                1,
                1,
                "job",
                SimulatedClock(),
                background,
                unused,
                context,
                self._keyed,
                kernels=kernels or InterpretedKernels(),
            )
        )

    def after(self, batches: Sequence[pa.RecordBatch | TimeMark]) -> Outcome:
        """What came of these batches, or of those before one that failed."""
        error = None
        for batch in batches:
            before = len(self._emitted)
            try:
                self._take(batch)
            except Exception as raised:
                del self._emitted[before:]
                error = type(raised).__name__, summary(str(raised))
                break
        return Outcome(self._rows(), () if error else self._states(), error)

    def _take(self, batch: pa.RecordBatch | TimeMark) -> None:
        if isinstance(batch, TimeMark):
            for _ in self.operator.on_watermark(batch):
                pass
        elif batch.num_rows:
            self.operator.process(batch, 0)
            self.operator.flush()

    def _rows(self) -> tuple[Any, ...]:
        return told_rows(self._emitted)

    def _states(self) -> tuple[Any, ...]:
        return tuple(
            (name, tuple(sorted((bits(key), bits(kept)) for key, kept in self._entries(name))))
            for name in self._names
        )

    def _entries(self, name: str) -> list[tuple[Any, Any]]:
        return list(self._keyed.entries(name))


def told_rows(batches: Sequence[pa.RecordBatch]) -> tuple[tuple[str, ...], ...]:
    """The rows of batches, to be compared bit for bit."""
    told = []
    for batch in batches:
        columns = [values_of(column) for column in batch.columns]
        told += [tuple(map(bits, row)) for row in zip(*columns, strict=True)]
    return tuple(told)


def summary(told: str) -> str:
    """What an error says, without its frames: the interpreter itself takes another column, and even
    another line, for an unset variable once it has seen its code a few times. That nothing of the
    kernel is among them is part of what it says."""
    first = told.split("\n", 1)[0]
    return f"{first} (with a kernel)" if "kernel" in told or "During handling" in told else first


def bits(value: Any) -> str:
    """A value by its type and its bits, so that 0.0, -0.0, 0 and False are four."""
    if isinstance(value, float):
        told = "nan" if value != value else struct.pack(">d", value).hex()
        return f"float {told}"
    if isinstance(value, tuple):
        return f"({', '.join(map(bits, value))})"
    return f"{type(value).__name__} {value!r}"


def plain(function: type[Any]) -> type[Any]:
    """The same class without ``compiled``."""
    return type(function.__name__, (function,), {"is_compiled": False})

"""What the operators of a job have emitted: rows and watermarks, in their order.

What an attempt has emitted after the epoch that the next one is restored from is emitted again, so
it is taken back here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.sink import SinkOperator
from mainstay.runtime.watermarks import GateClock
from mainstay.runtime.worker.worker import Worker
from mainstay.schema import batch_to_rows, row_class
from mainstay.testing.elements import Watermark


@dataclass(slots=True)
class _Emitted:
    """A batch or a watermark of one subtask. ``epoch`` is the first cut that it is before."""

    attempt: int
    subtask: int
    what: pa.RecordBatch | TimeMark
    epoch: int | None = None


@dataclass(slots=True)
class _Operator:
    emitted: list[_Emitted] = field(default_factory=list)
    parallelism: dict[int, int] = field(default_factory=dict)
    """By attempt."""
    is_sink: bool = False


class Emissions:
    """Looks on while workers run."""

    def __init__(self) -> None:
        self._attempt = 0
        self._operators: dict[str, _Operator] = {}

    def begin(self, attempt: int, epoch: int) -> None:
        """An attempt starts from an epoch; the ones before it count as far as that."""
        self._attempt = attempt
        for operator in self._operators.values():
            operator.emitted = [
                each for each in operator.emitted if each.epoch is not None and each.epoch <= epoch
            ]

    def watch(self, worker: Worker) -> None:
        """Note what the operators of a worker emit from now on."""
        for task in worker.tasks:
            for member in task.members:
                known = self._operators.setdefault(member.uid, _Operator())
                known.parallelism[worker.attempt] = task.spec.parallelism
                known.is_sink = isinstance(member.operator, SinkOperator)
                _wrap(member.operator, self._noting(known, worker), _cutting(known, worker))

    def _noting(self, operator: _Operator, worker: Worker) -> Callable[[Any], None]:
        attempt, subtask = worker.attempt, worker.number

        def note(what: Any) -> None:
            # Workers of an attempt that has ended may live on for a while.
            if attempt == self._attempt:
                operator.emitted.append(_Emitted(attempt, subtask, what))

        return note

    def of(self, uid: str) -> list[Any]:
        """Rows as tuples and watermarks. Of several subtasks a watermark is where the lowest of
        theirs moves on, as one that reads from all of them would see it."""
        operator = self._operators.get(uid)
        if operator is None:
            known = sorted(uid for uid, each in self._operators.items() if not each.is_sink)
            raise KeyError(f"there is no operator {uid!r}; the job has {known}")
        if operator.is_sink:
            raise KeyError(f"{uid!r} is a sink, which emits nothing: ask for what it reads from")
        return list(_in_order(operator))


def _wrap(operator: Operator, note: Callable[[Any], None], cut: Callable[[Epoch], None]) -> None:
    """Put calls around those of one operator."""
    out, on_watermark, before_marker = operator.out, operator.on_watermark, operator.before_marker

    def noted_out(batch: pa.RecordBatch) -> None:
        note(batch)
        out(batch)

    def noted_watermark(watermark: TimeMark) -> Iterator[None]:
        yield from on_watermark(watermark)
        note(watermark)

    def noted_marker(epoch: Epoch) -> None:
        before_marker(epoch)
        cut(epoch)

    vars(operator).update(out=noted_out, on_watermark=noted_watermark, before_marker=noted_marker)


def _cutting(operator: _Operator, worker: Worker) -> Callable[[Epoch], None]:
    def cut(epoch: Epoch) -> None:
        own = (worker.attempt, worker.number)
        for each in reversed(operator.emitted):
            if (each.attempt, each.subtask) == own:
                if each.epoch is not None:
                    break
                each.epoch = epoch

    return cut


def _in_order(operator: _Operator) -> Iterator[Any]:
    attempt, latest = 0, -1
    for each in operator.emitted:
        if each.attempt != attempt:
            attempt, clock = each.attempt, GateClock(operator.parallelism[each.attempt])
        if isinstance(each.what, TimeMark):
            told = clock.on_watermark(each.subtask, each.what)
            if told is not None and told.time_us is not None and told.time_us > latest:
                latest = told.time_us
                yield Watermark(latest)
        else:
            yield from map(tuple, batch_to_rows(each.what, row_class(each.what.schema)))

"""Input from outside: the splits of a source, and the triggers that come to it.

A trigger is a source's marker. It waits for the end of a split that may not be cut, and for what
its chain has under way; what comes after it waits behind it, in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstay.runtime.connector import Split
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.source import SourceOperator
from mainstay.runtime.ports import Clock
from mainstay.runtime.watermarks import LAST
from mainstay.runtime.worker.inputs.base import TaskInput
from mainstay.runtime.worker.operator_chain import OperatorChain


@dataclass(frozen=True, slots=True)
class _Trigger:
    epoch: Epoch
    is_last: bool


@dataclass(frozen=True, slots=True)
class _Assignment:
    splits: tuple[Split, ...]
    last: bool


class SourceInput(TaskInput):
    """The input of a task that starts with a source. A finished one answers triggers too."""

    def __init__(self, source: SourceOperator, chain: OperatorChain, clock: Clock) -> None:
        super().__init__(source, chain)
        self._source = source
        self._clock = clock
        self._waiting: list[_Trigger | _Assignment] = []
        self._has_more = False
        self._is_held = False
        self._is_drained = False

    def step(self) -> bool:
        source = self._source
        if self._waiting and not source.is_mid_split:
            self._take_waiting()
            return True
        if self._chain.ended or self._is_held:
            return False
        if source.is_exhausted or (self._is_drained and not source.is_mid_split):
            self._end()
            return True
        return self._poll()

    def take_marker(self) -> bool:
        if not self._waiting or self._source.is_mid_split:
            return False
        self._take_waiting()
        return True

    def _poll(self) -> bool:
        source, started = self._source, self._clock.monotonic()
        most, begin = self._chain.slice_rows, not self._waiting and not self._is_drained
        rows = self._chain.run(lambda: source.poll(most, begin=begin))
        self._has_more = bool(rows) and source.has_more(self._clock.monotonic())
        # Event time does not overtake rows that are left of a slice.
        watermark = source.next_watermark(started) if self._chain.is_settled else None
        if watermark is not None:
            self._chain.pass_on(watermark)
        return rows is not None or watermark is not None

    def _end(self) -> None:
        self._has_more = False
        if self._source.makes_watermarks:
            self._chain.pass_on(LAST)
        self._chain.end()

    @property
    def is_pressed(self) -> bool:
        return self._has_more

    @property
    def skipped(self) -> int:
        return self._source.skipped

    def deadline(self, *, has_room: bool) -> float | None:
        """A source that may not be read has no say in when to look again."""
        is_read = has_room and not self._is_held and not self._is_drained
        return self._source.deadline() if is_read else None

    # ------------------------------------------------------------ what waits

    def on_trigger(self, epoch: Epoch, *, is_last: bool = False) -> None:
        """Cut, at once if that is possible. What is read after the last epoch would be lost."""
        self._waiting.append(_Trigger(epoch, is_last))
        may_cut = self._chain.is_settled or self._chain.may_be_cut
        if may_cut and not self._source.is_mid_split:
            self._take_waiting()

    def assign(self, splits: tuple[Split, ...], *, last: bool) -> None:
        """Splits to read. Those that come after a trigger are not in its cut, because they are not
        in the notes that the coordinator took with it."""
        self._waiting.append(_Assignment(splits, last))
        self._take_assignments()

    def on_abort(self, epoch: Epoch) -> None:
        self._waiting = [
            each
            for each in self._waiting
            if not (isinstance(each, _Trigger) and each.epoch == epoch)
        ]
        self._take_assignments()

    def _take_assignments(self) -> None:
        if all(isinstance(each, _Assignment) for each in self._waiting):
            self._take_waiting()

    def _take_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            match each:
                case _Trigger(epoch, is_last):
                    self.snapshots.cut(epoch)
                    self._is_held = self._is_held or is_last
                case _Assignment(splits, last):
                    self._source.assign(splits, last=last)

    def hold(self) -> None:
        self._is_held = True

    def drain(self) -> None:
        self._is_drained = True

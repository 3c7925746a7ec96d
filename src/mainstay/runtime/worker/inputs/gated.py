"""Input from other tasks: the channels of a gate, with their markers and watermarks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.runtime.messages import Epoch, Marker, TimeMark
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.ports import Clock
from mainstay.runtime.watermarks import GateClock
from mainstay.runtime.worker.alignment import Action, MarkerHandler
from mainstay.runtime.worker.gate import Gate
from mainstay.runtime.worker.inputs.base import TaskInput
from mainstay.runtime.worker.operator_chain import OperatorChain


class GateInput(TaskInput):
    """The input of a task that other tasks send to."""

    def __init__(
        self,
        head: Operator,
        chain: OperatorChain,
        gate: Gate,
        markers: MarkerHandler,
        clock: Clock,
    ) -> None:
        super().__init__(head, chain)
        self.gate = gate
        self._markers = markers
        self._clock = clock
        self._time = GateClock(len(gate.channels))
        self._aligning_since: dict[Epoch, float] = {}

    def step(self) -> bool:
        if not self.gate.is_ready:
            return False
        if self._chain.is_parking and (self.gate.has_control or not self._chain.may_park):
            # It stays behind the rows that wait, which more rows must not keep waiting.
            return False
        self._take(*self.gate.take(self._chain.slice_rows, self._clock.monotonic()))
        return True

    def take_marker(self) -> bool:
        # Watermarks and ends of input that are before it line up behind what is under way.
        found = self.gate.take_control()
        if found is not None:
            self._take(*found)
        return found is not None

    @property
    def is_pressed(self) -> bool:
        return self.gate.is_ready

    @property
    def rows(self) -> int:
        return self.gate.rows

    def _take(self, number: int, element: Any) -> None:
        if isinstance(element, pa.RecordBatch):
            channel = self.gate.channels[number]
            self._chain.process(element, channel.port, edge=channel.edge)
        elif isinstance(element, Marker):
            self._on_marker(number, element.epoch)
        elif isinstance(element, TimeMark):
            self._on_time(self._time.on_watermark(number, element))
        else:
            self._on_end(number)

    def _on_end(self, number: int) -> None:
        are_all = self.gate.end(number)
        watermark = self._time.on_end(number)
        if _is_heard(self._first) and self.gate.has_ended(port := self.gate.channels[number].port):
            self._chain.end_port(port)
            # It may have held event time back.
            watermark = watermark or self._time.current
        self._on_time(watermark)
        if are_all:
            self._on_all_ended()

    def _on_time(self, watermark: TimeMark | None) -> None:
        if watermark is not None:
            self._chain.pass_on(watermark)

    def _on_all_ended(self) -> None:
        self._chain.end()

    # ------------------------------------------------------------ epochs

    def _on_marker(self, number: int, epoch: Epoch) -> None:
        verdict = self._markers.on_marker(number, epoch)
        if verdict.abandoned is not None:
            self.gate.unblock_all()
            self._aligning_since.pop(verdict.abandoned, None)
            self._subsume(verdict.abandoned, epoch)
        if verdict.action is Action.IGNORE:
            return
        now = self._clock.monotonic()
        since = self._aligning_since.setdefault(epoch, now)
        if verdict.action is Action.BLOCK:
            self.gate.block(number)
        elif verdict.action is Action.SNAPSHOT:
            waiting = self._aligning_since.items()
            self._aligning_since = {later: start for later, start in waiting if later > epoch}
            self.snapshots.cut(epoch, now - since)
            self.gate.unblock_all()

    def _subsume(self, abandoned: Epoch, epoch: Epoch) -> None:
        self.snapshots.decline(abandoned, f"subsumed by epoch {epoch}")

    def on_overtake(self, epoch: Epoch) -> None:
        verdict, arrived = self._markers.overtake(epoch)
        if verdict.abandoned is not None:
            self._subsume(verdict.abandoned, epoch)
        if verdict.action is Action.SNAPSHOT:
            now = self._clock.monotonic()
            since = self._aligning_since.pop(epoch, now)
            self.gate.unblock_all()
            self.snapshots.cut(epoch, now - since, arrived)

    def on_abort(self, epoch: Epoch) -> None:
        if self._markers.on_abort(epoch):
            self.gate.unblock_all()
        self._aligning_since.pop(epoch, None)

    def check_invariants(self) -> None:
        self.gate.check_invariants()


def _is_heard(head: Operator) -> bool:
    """Whether the head asks for the end of each of its inputs."""
    return type(head).on_port_end is not Operator.on_port_end

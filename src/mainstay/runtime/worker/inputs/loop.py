"""Input of the head of a loop: what comes back, and what is new.

What came back goes before what is new, unless an epoch waits behind that: behind what comes back,
for as long as anything does, it might wait for ever. A restored log goes before everything.
"""

from __future__ import annotations

from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.loop import LoopHead
from mainstay.runtime.ports import Clock
from mainstay.runtime.worker.alignment import MarkerHandler
from mainstay.runtime.worker.gate import Gate
from mainstay.runtime.worker.inputs.gated import GateInput
from mainstay.runtime.worker.operator_chain import OperatorChain


class LoopInput(GateInput):
    """A gate, and the rows that the tail of the loop feeds back."""

    def __init__(
        self,
        head: LoopHead,
        chain: OperatorChain,
        gate: Gate,
        markers: MarkerHandler,
        clock: Clock,
    ) -> None:
        super().__init__(head, chain, gate, markers, clock)
        self._head = head
        self._is_held = False
        self._awaited = self._last_cut = Epoch(0)

    def step(self) -> bool:
        feedback = self._head.feedback
        if self._chain.ended or feedback.is_full:
            return self._step_control()
        if self._head.is_done:
            self._chain.end()
            return True
        if self._is_held:
            return self._step_control()
        if self._is_awaited and not feedback.is_replaying and super().step():
            return True
        batch = feedback.take(self._chain.slice_rows)
        if batch is not None:
            self._chain.process(batch, 0)
            return True
        return self._step_control() if feedback.is_replaying else super().step()

    def _step_control(self) -> bool:
        """Take a marker, a watermark or an end that no row is before."""
        taken = self.gate.take_control()
        if taken is not None:
            self._take(*taken)
        return taken is not None

    @property
    def _is_awaited(self) -> bool:
        return self._awaited > self._last_cut

    @property
    def is_pressed(self) -> bool:
        return self._head.feedback.is_ready or super().is_pressed

    @property
    def queued(self) -> int:
        return self._head.feedback.rows

    def _on_all_ended(self) -> None:
        self._head.has_all_input = True

    def on_trigger(self, epoch: Epoch, *, is_last: bool = False) -> None:
        self._awaited = epoch

    def on_cut(self, epoch: Epoch) -> None:
        self._last_cut = epoch

    def on_abort(self, epoch: Epoch) -> None:
        super().on_abort(epoch)
        if epoch == self._awaited:
            self._awaited = self._last_cut

    def hold(self) -> None:
        self._is_held = True

    def end_loop(self) -> None:
        self._head.may_end = True

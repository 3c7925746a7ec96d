"""Parking: rows that wait for state which is read from far away.

The keys of a slice are known when it is taken. Where their state lies in an external database it
is read for all of them at once, in the background, and the slice waits here meanwhile. More rows
may be taken behind it, a few slices; they keep their order. Nothing but rows is taken while any
wait: markers, watermarks and ends of input stay behind the rows that came before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.runtime.operators.base import Operator
from mainstay.runtime.ports import Background, Clock

MOST_SLICES = 4
MOST_BYTES = 16 << 20
"""What may wait, besides the slice that goes beyond it."""


@dataclass(slots=True, eq=False)
class ParkedRows:
    """A slice that waits. ``is_ready`` once all it was waiting for is there."""

    batch: pa.RecordBatch
    port: int
    edge: str
    is_ready: bool = False
    is_reading: bool = False


class Parking:
    """The slices of one task that wait, in order."""

    def __init__(self, head: Operator, background: Background, clock: Clock) -> None:
        self._head = head
        self._background = background
        self._clock = clock
        self._slices: deque[ParkedRows] = deque()
        self._since = 0.0
        self.waited_s = 0.0
        """How long the first slice has waited so far."""
        self.reads = 0
        self.read_s = 0.0
        """How many reads were done, and how long they took."""

    @property
    def is_empty(self) -> bool:
        return not self._slices

    @property
    def is_full(self) -> bool:
        size_bytes = sum(each.batch.nbytes for each in self._slices)
        return len(self._slices) >= MOST_SLICES or size_bytes > MOST_BYTES

    @property
    def rows(self) -> int:
        return sum(each.batch.num_rows for each in self._slices)

    def kept(self) -> list[tuple[str, pa.RecordBatch]]:
        """What waits, with the names of its edges."""
        return [(each.edge, each.batch) for each in self._slices]

    def take(self, batch: pa.RecordBatch, port: int, edge: str) -> bool:
        """Have a slice wait if it must; False where it may be processed now."""
        work = self._head.ahead(batch, port)
        if work is None and not self._slices:
            return False
        if not self._slices:
            self._since = self._clock.monotonic()
        parked = ParkedRows(batch, port, edge, is_ready=work is None)
        self._slices.append(parked)
        if work is not None:
            self._submit(parked, work)
        return True

    def next(self) -> ParkedRows | None:
        """The first slice, if all it has waited for is there; it is handed out once."""
        if not self._slices:
            return None
        first = self._slices[0]
        if not first.is_ready and not first.is_reading:
            self._ask_again(first)
        if not first.is_ready:
            return None
        now = self._clock.monotonic()
        self.waited_s += now - self._since
        self._since = now
        return self._slices.popleft()

    def _ask_again(self, parked: ParkedRows) -> None:
        """What it waits for could not be read."""
        work = self._head.ahead(parked.batch, parked.port)
        if work is None:
            parked.is_ready = True
        else:
            self._submit(parked, work)

    def _submit(self, parked: ParkedRows, work: Any) -> None:
        began = self._clock.monotonic()

        def ended(then: Callable[[Any], None], *, is_ready: bool) -> Callable[[Any], None]:
            def end(result: Any) -> None:
                parked.is_reading, parked.is_ready = False, is_ready
                self.reads += is_ready
                self.read_s += self._clock.monotonic() - began
                then(result)

            return end

        parked.is_reading = True
        self._background.submit(
            work.run, ended(work.done, is_ready=True), ended(work.failed, is_ready=False)
        )

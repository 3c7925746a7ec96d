"""Gathering: an operator that works on many rows at once holds on to those that come in.

What is done in columns costs about as much for a batch as for some thousands of rows, and a task
may be given a few at a time. So batches are put together while there is more to do. Nothing is held
when the worker is idle, before a marker or a watermark, and at the end, and not for long otherwise.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

import pyarrow as pa

from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator
from mainstay.schema.sizes import joined

GATHERED_ROWS = 1 << 17
GATHERED_BYTES = 1 << 23
"""How many are enough: of wide rows there are fewer, so that a worker is not deaf for long."""
LINGER_S = 0.03
"""How long rows are gathered under load: the more there are, the fewer keys there are for each."""


class GatheringOperator(Operator):
    """Gathers batches of one input, and takes all of them at once when there are enough or it is
    time."""

    def __init__(self) -> None:
        self._gathered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._since = 0.0

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if not batch.num_rows:
            return
        if not self._gathered:
            self._since = self.context.clock.monotonic()
        self._gathered.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GATHERED_ROWS or self._bytes >= GATHERED_BYTES:
            self.flush()

    def flush(self, *, idle: bool = True) -> bool:
        if not self._gathered:
            return False
        if not idle and self.context.clock.monotonic() < self._since + LINGER_S:
            return False
        gathered, self._gathered = self._gathered, []
        self._rows = self._bytes = 0
        for batch in joined(gathered):
            self.take(batch)
        return True

    def take(self, batch: pa.RecordBatch) -> None:
        """Do what there is to do for the rows that were gathered."""
        raise NotImplementedError

    def before_marker(self, epoch: Epoch) -> None:
        self.flush()

    def end_of_input(self) -> None:
        self.flush()

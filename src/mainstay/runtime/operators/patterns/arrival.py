"""Matching in the order in which rows come. Their time is that of the wall clock."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mainstay.runtime.operators.patterns.match import MatchRows
from mainstay.runtime.operators.timed import OVERDUE_S
from mainstay.state.backends.contract import Work


class MatchAtOnce(MatchRows):
    """Matches rows as they come."""

    _rings = True
    """The wall clock rings until the end of input."""

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        assert self.context.keyed is not None
        return self.context.keyed.read_ahead(self.reader.keys(batch))

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if not batch.num_rows:
            return
        rows = self.reader.visible(batch)
        times = np.full(batch.num_rows, self._now_us(), np.int64)
        self.match(self.reader.column(batch), rows, times, self.verdicts(rows))

    def _now_us(self) -> int:
        return self.context.row_context.now_us()

    # ------------------------------------------------------------ time

    def is_due(self) -> bool:
        first = None if self._due is None else self._due.due_us()
        return first is not None and first <= self._now_us()

    def on_clock(self) -> Iterator[None]:
        return self.expire(self._now_us())

    def deadline(self) -> float | None:
        first = self._due.due_us() if self._rings and self._due is not None else None
        if first is None:
            return None
        wait_s = (first - self._now_us()) / 1_000_000
        return self.context.clock.monotonic() + (wait_s if wait_s > 0 else OVERDUE_S)

    def before_end(self) -> Iterator[None]:
        """What no time ends is ended by the end of input; what waits for a time stays in state."""
        if self.pattern.within_us is None:
            yield from self.end()
        else:
            yield from self.on_clock()

    def end_of_input(self) -> None:
        self._rings = False

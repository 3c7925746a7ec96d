"""Sources and sinks of simulated graphs: coarse ones, and ones that are away at times."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import mainstay as ms


class LocalMemory(ms.connectors.Memory):
    """Committed by the subtasks instead of the coordinator."""

    is_global = False


class PutOff(ms.connectors.SinkWriter):
    """Does its writing beside the loop; a part of it fails at first, done or not done."""

    def __init__(self, inner: Any, random: Random) -> None:
        self._inner = inner
        self._random = random
        self._gathered: list[Any] = []

    def write(self, batch: Any) -> Any:
        self._gathered.append(batch)
        if self._random.random() < 0.7:
            return None
        return self._failing_at_first(self._write_gathered())

    def prepare(self, epoch: int) -> Any:
        write = self._write_gathered()
        return self._failing_at_first(lambda: write() or self._inner.prepare(epoch))

    def _write_gathered(self) -> Callable[[], None]:
        batches, self._gathered = self._gathered, []

        def write() -> None:
            for batch in batches:
                self._inner.write(batch)

        return write

    def _failing_at_first(self, work: Callable[[], Any]) -> Callable[[], Any]:
        failures = self._random.choice([0] * 12 + [1, 2])
        results: list[Any] = []

        def run() -> Any:
            nonlocal failures
            if not results and (failures == 0 or self._random.random() < 0.5):
                results.append(work())
            if failures:
                failures -= 1
                raise OSError("the target is away")
            return results[0]

        return run


away = Random()


class PutOffMemory(ms.connectors.Memory):
    """Writes beside the loop, to a target that is away at times."""

    def open(self, context: Any) -> Any:
        return PutOff(super().open(context), Random(f"{context.attempt}-{context.subtask}"))

    def commit(self, handles: Any) -> None:
        if away.random() < 0.2:
            raise OSError("the target is away")
        super().commit(handles)


class LocalPutOffMemory(PutOffMemory):
    """The same, committed by the subtasks."""

    is_global = False


class CoarseRows(ms.connectors.Rows):
    """Rows in polls of a size of their own, whatever is asked for, so that slices cut them."""

    def read(self, split: Any, offset: Any) -> Any:
        reader = super().read(split, offset)
        poll = reader.poll
        reader.poll = lambda max_rows: poll(7)
        return reader


class BlockingRows(CoarseRows):
    """The same rows, polled beside the loop."""

    may_block = True

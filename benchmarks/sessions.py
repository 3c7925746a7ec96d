"""Sessions: rows a second into them, sessions a second out of them, and memory for each.

The operator by itself over the state in memory, with batches of the size that it gathers. Beside
it, the same sessions in a dictionary of Python: by key a list of start, end, count and sum.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, count
from mainstay.connectors import Memory, Rows
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.gathering import GATHERED_ROWS
from mainstay.runtime.row_context import ProcessContext
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.operator import OperatorList

SCHEMA = "user long, at timestamp, amount long"
SECOND = 1_000_000
GAP_S = 300
SESSIONS = 1_000_000


def measure(size: Size) -> list[Table]:
    return [_table(size.of(SESSIONS))]


def _table(sessions: int) -> Table:
    table = Table(
        "Sessions",
        ["what", "figure"],
        f"count and sum by a long, a gap of {GAP_S} s, {sessions:,} open sessions, in one process.",
    )
    opened = Opened()
    batches = list(batches_of(sessions))
    table.add("bytes for an open session", f"{bytes_of_open(sessions, opened, batches):.0f}")
    table.add("bytes in a dictionary", f"{bytes_in_dictionary(sessions):.0f}")
    again = batches[len(batches) // 2 :]
    took = _seconds(lambda: opened.take(again))
    rows = sum(batch.num_rows for batch in again)
    table.add("rows/s into sessions that are open", count(rows / took))
    fresh = Opened()
    took = _seconds(lambda: fresh.take(batches[: len(batches) // 2]))
    table.add("rows/s that begin sessions", count(sessions / took))
    took = _seconds(lambda: opened.until(10_000 * SECOND))
    table.add("sessions/s that fire", count(opened.emitted / took))
    return table


def bytes_of_open(sessions: int, opened: Opened, batches: list[pa.RecordBatch]) -> float:
    """What an open session takes, once the first half of the batches is taken."""
    return _memory(lambda: opened.take(batches[: len(batches) // 2])) / sessions


def bytes_in_dictionary(sessions: int) -> float:
    """What the same takes in a dictionary."""
    return _memory(lambda: _dictionary(sessions)) / sessions


class Opened:
    """The operator, and how many rows it has emitted."""

    def __init__(self) -> None:
        env = ms.Environment(parallelism=1)
        source = env.source(Rows(SCHEMA, []), uid="in", watermark=ms.Watermark("at"))
        windows = source.key_by("user").window(ms.session(GAP_S))
        windows.aggregate(n=ms.count(), total=ms.sum("amount"), uid="s").sink(Memory(), uid="out")
        spec = next(spec for _, spec in env.plan().operators() if spec.uid == "s")
        self.operator: Any = spec.factory.build()
        self.emitted = 0
        self.operator.out = self._count
        ctx = ProcessContext("s", 0, 1)
        assert spec.key is not None
        units = [info for info in spec.states if info.kind.shape == "units"]
        states = [info for info in spec.states if info.kind.shape != "units"]
        self.backend = HeapBackend(states, spec.key.type, 128, ctx)
        unused: Any = None
        self.operator.open(
            OperatorContext(
                "s",
                0,
                1,
                1,
                "job",
                Clock(),
                unused,
                unused,
                ctx,
                self.backend,
                {info.name: OperatorList(info) for info in units},
                groups=KeyGroupRange(0, 127),
                max_parallelism=128,
            )
        )

    def _count(self, batch: pa.RecordBatch) -> None:
        self.emitted += batch.num_rows

    def take(self, batches: list[pa.RecordBatch]) -> None:
        for batch in batches:
            self.operator.process(batch, 0)
            self.operator.flush()

    def until(self, time_us: int) -> None:
        for _ in self.operator.on_watermark(TimeMark(time_us)):
            pass


class Clock:
    """The one of the process."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


def batches_of(sessions: int) -> Iterator[pa.RecordBatch]:
    """A row of each key, in any order; then another one, within the gap."""
    random = np.random.default_rng(7)
    for _ in range(2):
        keys = random.permutation(sessions)
        times = np.sort(random.integers(0, GAP_S * SECOND // 2, sessions))
        for first in range(0, sessions, GATHERED_ROWS):
            part = slice(first, first + GATHERED_ROWS)
            yield pa.record_batch(
                {
                    "user": pa.array(keys[part]),
                    "at": pa.array(times[part]).cast(pa.timestamp("us", "UTC")),
                    "amount": pa.array(keys[part] % 100),
                }
            )


def _dictionary(sessions: int) -> Any:
    first = 1 << 20
    return {key: [[key * 7, key * 7 + 8, 1, key * 3]] for key in range(first, first + sessions)}


def _memory(make: Callable[[], Any]) -> int:
    tracemalloc.start()
    kept = make()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return used


def _seconds(do: Callable[[], Any]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start

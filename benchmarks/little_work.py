"""What little work costs: a job that waits, and one with many operators and few rows.

The job runs on processes of its own. Counted are seconds of the processor: of the workers, and of
this process, which has the coordinator. The same job at another rate tells what a row adds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import psutil
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table
from mainstay.api.overrides import PROCESSES
from mainstay.connectors import Generate, Sink, SinkWriter
from mainstay.runtime.connector import SinkContext

SECONDS = 30
WARM_UP_S = 1.0
EVERY = "1s"
SETTINGS = ((1, 0.01), (20, 0.01), (1, 300.0), (20, 300.0))
"""Operators of the job, and rows a second. One in a hundred seconds is a job that waits."""
SCHEMA = "key long, amount long"


class Total(ms.KeyedProcess):
    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        total = (self.total.get() or 0) + 1
        self.total.update(total)
        yield ctx.key, total


def numbers(first: int, count: int) -> pa.RecordBatch:
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.RecordBatch.from_arrays([ids, ids], names=["key", "amount"])


class Nowhere(Sink):
    """Takes rows and forgets them."""

    def open(self, context: SinkContext) -> SinkWriter:
        return _Forgetting()

    def commit(self, handles: Sequence[bytes]) -> None:
        return None


class _Forgetting(SinkWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        return None

    def prepare(self, epoch: int) -> None:
        return None


def measure(size: Size) -> list[Table]:
    table = Table(
        "What little work costs",
        ["operators, rows/s", "workers, % of a core", "driver, % of a core", "ms for a row"],
        "Two workers and the driver, each a process of its own, heap state, a snapshot every "
        f"{EVERY}. Seconds of the processor for each second of the clock. A row goes through all "
        "operators, each with a shuffle; *ms for a row* is what it adds to the job that waits.",
    )
    seconds = max(1, size.of(SECONDS))
    idle: dict[int, float] = {}
    for operators, rate in SETTINGS:
        workers, driver = spent(operators, rate, seconds)
        both = workers + driver
        added = ""
        if operators in idle:
            added = f"{max(0.0, both - idle[operators]) / rate * 1e3:.2f}"
        idle.setdefault(operators, both)
        shown = "none" if rate < 1 else f"{rate:,.0f}"
        table.add(f"{operators}, {shown}", f"{workers:.1%}", f"{driver:.1%}", added)
    return [table]


def spent(operators: int, rate: float, seconds: float) -> tuple[float, float]:
    """Shares of a core, of the workers together and of this process, while a job runs."""
    with tempfile.TemporaryDirectory() as folder:
        job = started(operators, rate, folder)
        try:
            time.sleep(WARM_UP_S)
            before, began = used(), time.monotonic()
            time.sleep(seconds)
            after, ended = used(), time.monotonic()
        finally:
            job.cancel()
    took = ended - began
    return (after[0] - before[0]) / took, (after[1] - before[1]) / took


def started(operators: int, rate: float, folder: str) -> Any:
    env = ms.Environment(
        spark=PROCESSES, parallelism=2, snapshots=ms.Snapshots(folder, every=EVERY)
    )
    source = Generate(SCHEMA, numbers, rows_per_second=rate)
    stream = env.source(source, uid="numbers")
    for number in range(operators):
        stream = stream.key_by("key").process(Total(), SCHEMA, uid=f"total-{number}")
    stream.sink(Nowhere(), uid="out")
    job = env.start("little")
    while job.status != "running":
        time.sleep(0.05)
    return job


def used() -> tuple[float, float]:
    """Seconds of the processor so far: of the processes below this one, and of this one."""
    here = psutil.Process(os.getpid())
    below = (each.cpu_times() for each in here.children(recursive=True))
    own = here.cpu_times()
    return sum(each.user + each.system for each in below), own.user + own.system

"""Live queries beside a job at full speed: how long an answer takes, and what it costs the job.

A job of one or two worker processes counts rows by key as fast as it can, with an epoch every
second. Threads of the driver ask for single keys at a given rate. Before each run with queries
comes one without, and the rows a second of the two are compared.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, count, median
from mainstay.connectors import Generate, Memory
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_job import RemoteJob
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions

KEYS = 100_000
RATES = (1, 100, 1_000)
WORKERS = (2, 1)
"""A small run has the first alone."""
SECONDS = 8.0
MOST_THREADS = 8
PER_THREAD = 25
"""Queries a second that one thread asks at most."""


class Total(ms.KeyedProcess):
    """A value for each key."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.update((self.total.get() or 0) + row.amount)
        if row.amount < 0:
            yield ctx.key, row.amount


def rows(keys: int, first: int, number: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + number, dtype=np.int64)
    keyed = numbers * 2_654_435_761 % keys
    return pa.RecordBatch.from_arrays([pa.array(keyed), pa.array(numbers % 7)], ["k", "amount"])


@dataclass
class Run:
    """What a job did while it was asked so often."""

    rows_per_s: float
    took_ms: list[float]
    late: int

    def percentile(self, share: float) -> float:
        return self.took_ms[min(len(self.took_ms) - 1, int(len(self.took_ms) * share))]


def started(folder: str, keys: int, workers: int) -> Any:
    env = ms.Environment(spark="embedded", parallelism=workers, snapshots=ms.Snapshots(folder))
    source = Generate("k long, amount long", partial(rows, keys))
    totals = env.source(source, uid="rows").key_by("k").process(Total(), "k long, n long", uid="t")
    totals.sink(Memory(), uid="out")
    options = JobOptions(
        "queries", "queries", SnapshotOptions(every_s=1.0), RestartOptions(), RestoreOptions("new")
    )
    return RemoteJob("queries", env.plan(), options, folder, ProcessLauncher())


def rows_read(job: Any) -> int:
    return sum(each.rows for each in job.metrics().values() if each.is_source)


def run(rate: int, keys: int, seconds: float, workers: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        job = started(folder, keys, workers)
        while not any(each.status == "complete" for each in job.snapshots()):
            job.wait(0.1, progress=False)
        began, before = time.perf_counter(), rows_read(job)
        took_ms = asked(job, rate, keys, began, began + seconds)
        rows_per_s = (rows_read(job) - before) / (time.perf_counter() - began)
        late = sum(each.status != "complete" for each in job.snapshots())
        job.cancel()
    return Run(rows_per_s, took_ms, late)


def asked(job: Any, rate: int, keys: int, began: float, until: float) -> list[float]:
    """What each of the queries took, in milliseconds and in order of that."""
    if not rate:
        threading.Event().wait(until - began)
        return []
    threads = min(MOST_THREADS, -(-rate // PER_THREAD))
    took_ms: list[float] = []

    def ask(number: int) -> None:
        # One after the other: threads that ask at one moment wait for each other.
        turn, due = number, began + (number - threads) / rate
        while (now := time.perf_counter()) < until:
            due += threads / rate
            threading.Event().wait(max(0.0, due - now))
            asked_at = time.perf_counter()
            job.query("t.total", key=turn * 7_919 % keys)
            took_ms.append((time.perf_counter() - asked_at) * 1e3)
            turn += threads

    asking = [threading.Thread(target=ask, args=[number]) for number in range(threads)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    return sorted(took_ms)


def measure(size: Size) -> list[Table]:
    keys, seconds = size.of(KEYS), max(0.5, SECONDS / size.divisor)
    table = Table(
        "Live queries",
        [
            "queries/s asked",
            "workers",
            "answered/s",
            "p50 ms",
            "p99 ms",
            "rows/s",
            "of those without",
            "late",
        ],
        f"{count(keys)} keys, worker processes at full speed, an epoch every second, "
        f"{seconds:g} s each, medians. With as many workers as processors, or more, a query waits "
        "for a processor as well. *late* are epochs that were not complete in time.",
    )
    for workers in WORKERS[: size.repeats]:
        for rate in RATES:
            rounds = [pair(rate, keys, seconds, workers) for _ in range(min(size.repeats, 3))]
            runs = [asked for _, asked in rounds]
            table.add(
                f"{rate:,}",
                str(workers),
                f"{median([len(each.took_ms) / seconds for each in runs]):,.0f}",
                f"{median([each.percentile(0.5) for each in runs]):.1f}",
                f"{median([each.percentile(0.99) for each in runs]):.1f}",
                count(median([each.rows_per_s for each in runs])),
                f"{median([b.rows_per_s / max(1.0, a.rows_per_s) for a, b in rounds]):.2f}",
                sum(each.late for each in runs),
            )
    return [table]


def pair(rate: int, keys: int, seconds: float, workers: int) -> tuple[Run, Run]:
    """A run without queries, and one with them."""
    return run(0, keys, seconds, workers), run(rate, keys, seconds, workers)

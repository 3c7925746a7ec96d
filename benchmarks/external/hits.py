"""Rows a second by how many of the keys are in the cache, beside the heap in the same run.

One worker with a number for each key, as in ``benchmarks.rocksdb_state``. Some keys are *hot*, and
fit into the cache; all others come round in turn, so that none of them is still cached when it
comes again. A row's key is hot with the wanted probability. What the ratio came to is measured.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.bench_worker import SOURCE_UID, BenchWorker, Counting
from benchmarks.external.database import (
    PROTOCOLS,
    Spent,
    backend_named,
    emptied,
    running_server,
    server_cpu_s,
)
from benchmarks.report import Size, Table, count, median
from benchmarks.rocksdb_state import Total
from mainstay.connectors import Polled, Source, Split, SplitReader
from mainstay.connectors.postgres.states.settings import SMALLEST_CACHE_BYTES
from mainstay.snapshot.object_storage import open_storage
from mainstay.state.backends.external.versioned import Versioned
from tests.services.postgres import PostgresServer

RATIOS = (0, 50, 90, 99)
KEYS = 400_000
HOT = 10_000
WARM_ROWS = 50_000
ROWS = 200_000
EPOCH_ROWS = 25_000
CACHE_BYTES = 16 << 20
"""Enough for about 50,000 rows of this state."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run came to."""

    rows_per_s: float
    hit: float
    client_us: float
    server_us: float
    read_us: float
    encode_us: float
    apply_us: float

    @property
    def cpu_us(self) -> float:
        return self.client_us + self.server_us


def rows_with(ratio: int, size: Size) -> pa.RecordBatch:
    """Every key once; then rows whose key is a hot one with a probability of ``ratio`` percent.

    A cold key comes again when as many others have come as there are.
    """
    rows, keys, hot = size.of(WARM_ROWS + ROWS), size.of(KEYS), size.of(HOT)
    chance = np.random.default_rng(7)
    cold = chance.permutation(keys - hot) + hot
    order = np.empty(rows, np.int64)
    is_hot = chance.random(rows) * 100 < ratio
    order[~is_hot] = cold[np.arange(int((~is_hot).sum())) % len(cold)]
    order[is_hot] = chance.integers(0, hot, int(is_hot.sum()))
    order = np.concatenate([np.arange(hot), cold, order])
    amounts = np.arange(len(order), dtype=np.int64) % 1000
    return pa.record_batch({"key": pa.array(order, pa.int64()), "amount": pa.array(amounts)})


def cache_bytes(size: Size) -> int:
    return max(SMALLEST_CACHE_BYTES, size.of(CACHE_BYTES))


class Given(Source):
    """The rows of a batch, each once, up to as many as were allowed."""

    bounded = False

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.schema, self.batch = batch.schema, batch
        self.given = self.allowed = 0

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("all")]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _GivenReader(self)


class _GivenReader(SplitReader):
    def __init__(self, source: Given) -> None:
        self._source = source

    def poll(self, max_rows: int) -> Polled:
        source = self._source
        rows = min(max_rows, source.allowed - source.given)
        taken = source.batch.slice(source.given, rows)
        source.given += rows
        return Polled(taken if rows else None, source.given)


class HitJob:
    """A worker over one backend."""

    def __init__(self, state: Any, batch: pa.RecordBatch, directory: str) -> None:
        self.source = Given(batch)
        env = ms.Environment(parallelism=1, state=state)
        stream = env.source(self.source, uid=SOURCE_UID).key_by("key")
        stream.process(Total(), "key long", uid="totals").sink(Counting(), uid="out")
        self.worker = BenchWorker(env.plan(), open_storage(directory), waits=True)
        self.backend: Any = self.worker.keyed_backend("totals")

    def _epoch(self) -> None:
        self.worker.trigger()
        self.worker.run_until(lambda: self.worker.is_acknowledged)
        self.worker.complete()

    def run(self, rows: int, epoch_rows: int) -> None:
        """Process so many rows, and bring all of them to where they are kept."""
        self.source.allowed += rows
        while (taken := self.worker.rows_taken("totals")) < self.source.allowed:
            to = min(self.source.allowed, taken + epoch_rows)
            self.worker.run_until(lambda: self.worker.rows_taken("totals") >= to)  # noqa: B023
            self._epoch()
        self._epoch()  # rows that were processed beside the last one
        self.worker.run_until(self._is_settled)

    def _is_settled(self) -> bool:
        """Whether the database has everything, and has folded what it folds of it."""
        if self.backend.not_absorbed:
            return False
        commits = getattr(self.backend, "commits", None)
        if not isinstance(commits, Versioned):
            return True
        return not commits.is_busy and commits.is_folded


def run_once(server: PostgresServer, name: str, batch: pa.RecordBatch, size: Size) -> Run:
    emptied(server)
    epoch_rows = size.of(EPOCH_ROWS)
    with tempfile.TemporaryDirectory() as directory:
        job = HitJob(backend_named(name, server, cache_bytes(size)), batch, directory)
        try:
            job.run(size.of(KEYS), 4 * epoch_rows)
            job.run(size.of(WARM_ROWS), epoch_rows)
            return _measured(server, job, size.of(ROWS), epoch_rows)
        finally:
            job.worker.close()


def _measured(server: PostgresServer, job: HitJob, rows: int, epoch_rows: int) -> Run:
    spent, before = Spent(), job.backend.looks
    cpu, server_cpu, began = time.process_time(), server_cpu_s(server), time.perf_counter()
    with spent.watching():
        job.run(rows, epoch_rows)
    took_s = time.perf_counter() - began
    after, hit = job.backend.looks, 1.0
    if after is not None:
        hits, misses = after.hits - before.hits, after.misses - before.misses
        hit = hits / max(1, hits + misses)
    client, theirs = time.process_time() - cpu, server_cpu_s(server) - server_cpu
    parts = [spent.wall_s.get(part, 0.0) for part in ("read", "encode", "apply")]
    return Run(rows / took_s, hit, *(each / rows * 1e6 for each in (client, theirs, *parts)))


def measure(size: Size) -> Iterator[Table]:
    table = Table(
        "Rows a second by the part of keys that are in the cache",
        [
            "state",
            "wanted",
            "hit ratio",
            "rows/s",
            "of heap",
            "of heap, CPU",
            "client µs",
            "server µs",
            "read µs",
            "encode µs",
            "apply µs",
        ],
        f"{count(size.of(KEYS))} keys, of which {count(size.of(HOT))} are hot; one worker, a "
        f"`process` function with a ValueState of long, an epoch every "
        f"{count(size.of(EPOCH_ROWS))} rows, a cache of {cache_bytes(size) >> 20} MiB. The time "
        "ends when the last row is applied and deltas are folded. *client* and *server* are the "
        "processor's time for a row; *read*, *encode* and *apply* are what calls took by the clock "
        "for each row of the input, beside each other and beside the loop; *apply* has the "
        "encoding of rows in it, and all that a protocol does to have them seen: the pointer and "
        "the fold of *versioned*, the commit of what was *prepared*. "
        "*of heap*: the rate beside that of the same rows on the heap, in turn with it; *CPU*: the "
        "same of the processor's time, client and server together, which other work disturbs less. "
        f"Medians of {size.repeats}.",
    )
    with running_server() as server:
        for ratio in RATIOS:
            for protocol in PROTOCOLS:
                _add(table, server, protocol, ratio, size)
    yield table


def _add(table: Table, server: PostgresServer, protocol: str, ratio: int, size: Size) -> None:
    batch = rows_with(ratio, size)
    ours, heap = [], []
    for _ in range(size.repeats):
        ours.append(run_once(server, protocol, batch, size))
        heap.append(run_once(server, "heap", batch, size))
        print(protocol, ratio, ours[-1], flush=True)
    of_heap = [mine.rows_per_s / other.rows_per_s for mine, other in zip(ours, heap, strict=True)]
    of_cpu = [other.client_us / mine.cpu_us for mine, other in zip(ours, heap, strict=True)]
    figures = [median([getattr(run, name) for run in ours]) for name in Run.__slots__]
    rate, hit, *micros = figures
    ratios = [f"{median(of_heap):.2f}", f"{median(of_cpu):.2f}"]
    cells = [f"{hit:.1%}", count(rate), *ratios, *(f"{us:.1f}" for us in micros)]
    table.add(protocol, f"{ratio} %", *cells)

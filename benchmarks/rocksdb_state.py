"""State in RocksDB beside state in memory: rows a second, what a snapshot stores, and memory.

Each case is a job of one worker in a process of its own, with a function that keeps one number for
each key. It gives every key a value, in no order; then it changes keys at random; then one key in a
hundred, and at last all of them, with a snapshot after each. The bytes of those should follow the
keys that were changed, not those that there are.

Beside the rows a second of the clock stands the processor's time for a row, all threads together:
on a machine that is busy with other things, that is the figure to compare.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.bench_worker import SOURCE_UID, BenchWorker, Counting, Endless
from benchmarks.report import Size, Table, count
from mainstay.drive.process import settle_process
from mainstay.snapshot.object_storage import open_storage

CASES = [100_000, 1_000_000, 5_000_000]
MEMORY = "512MiB"
EPOCH_ROWS = 200_000
_FEW = 1000
_CHILD = "import sys; from benchmarks import rocksdb_state as b; b.child(sys.argv[1], sys.argv[2])"


class Total(ms.KeyedProcess):
    """A running total for each key; nothing is emitted."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> None:
        self.total.update((self.total.get() or 0) + row.amount)


@dataclass(frozen=True, slots=True)
class Pace:
    """How quickly rows were processed."""

    rows_per_s: float
    cpu_us_per_row: float


class StateJob:
    """A worker with a number of keys, driven a phase at a time."""

    def __init__(self, backend: str, keys: int, directory: str) -> None:
        self._keys = keys
        self._source = Endless(key_rows(keys))
        state: Any = "heap" if backend == "heap" else ms.RocksDB(memory=MEMORY)
        env = ms.Environment(parallelism=1, state=state)
        stream = env.source(self._source, uid=SOURCE_UID).key_by("key")
        stream.process(Total(), "key long", uid="totals").sink(Counting(), uid="out")
        self._worker = BenchWorker(env.plan(), open_storage(directory))

    def pace(self, rows: int) -> Pace:
        """Process so many rows further, with an epoch now and then."""
        began, cpu = time.perf_counter(), time.process_time()
        end = self._source.given + rows
        while self._source.given < end:
            self._run_to(min(end, self._source.given + EPOCH_ROWS))
            self.epoch_bytes()
        rate = rows / (time.perf_counter() - began)
        return Pace(rate, (time.process_time() - cpu) / rows * 1e6)

    def _run_to(self, given: int) -> None:
        self._worker.run_until(lambda: self._source.given >= given)

    def epoch_bytes(self) -> int:
        """Take an epoch; what it stored."""
        self._worker.trigger()
        self._worker.run_until(lambda: self._worker.is_acknowledged)
        return max(figures.size_bytes for figures in self._worker.complete())

    def changed_bytes(self, changed: int) -> int:
        """What an epoch stores after this many keys were changed, and no others."""
        self._source.focus = max(1, changed)
        self.epoch_bytes()
        self._run_to(self._source.given + changed)
        return self.epoch_bytes()

    def close(self) -> None:
        self._worker.close()


def key_rows(keys: int) -> pa.RecordBatch:
    """Every key once, in no order; then half as many keys at random."""
    chance = np.random.default_rng(7)
    order = np.concatenate([chance.permutation(keys), chance.integers(0, keys, updates(keys))])
    amounts = np.arange(len(order), dtype=np.int64) % 1000
    return pa.record_batch({"key": pa.array(order, pa.int64()), "amount": pa.array(amounts)})


def updates(keys: int) -> int:
    return max(1, keys // 2)


def run_job(backend: str, keys: int) -> dict[str, Any]:
    """One job in this process, and its figures."""
    with tempfile.TemporaryDirectory() as directory:
        job = StateJob(backend, keys, directory)
        found: dict[str, Any] = {
            "fill": asdict(job.pace(keys)),
            "update": asdict(job.pace(updates(keys))),
            "hundredth_bytes": job.changed_bytes(keys // 100),
            "all_bytes": job.changed_bytes(keys),
        }
        job.close()
    return found


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def child(backend: str, keys: str) -> None:
    settle_process()
    run_job(backend, _FEW)
    # The rows that are given are there before and do not count.
    rows = key_rows(int(keys))
    base = peak_bytes() + rows.nbytes
    del rows
    found = run_job(backend, int(keys))
    print(json.dumps({**found, "memory_bytes": peak_bytes() - base}))


def measure(size: Size) -> list[Table]:
    cases = [(backend, size.of(keys)) for keys in CASES for backend in ("heap", "rocksdb")]
    figures = [_in_a_process(backend, keys) for backend, keys in cases]
    return [_pace_table(cases, figures), _size_table(cases, figures)]


Cases = Sequence[tuple[str, int]]
Figures = Sequence[dict[str, Any]]


def _pace_table(cases: Cases, figures: Figures) -> Table:
    table = Table(
        "State in RocksDB: rows",
        ["backend", "keys", "fill rows/s", "fill µs/row", "update rows/s", "update µs/row"],
        f"One worker, a `process` function with a ValueState of long; RocksDB may use {MEMORY}. "
        "Every key is written once (fill), then keys at random (update), with an epoch every "
        f"{count(EPOCH_ROWS)} rows. µs are of the processor, over all threads.",
    )
    for (backend, keys), found in zip(cases, figures, strict=True):
        cells = [backend, count(keys)]
        for phase in ("fill", "update"):
            cells += [
                count(found[phase]["rows_per_s"]),
                f"{found[phase]['cpu_us_per_row']:.1f}",
            ]
        table.add(*cells)
    return table


def _size_table(cases: Cases, figures: Figures) -> Table:
    table = Table(
        "State in RocksDB: snapshots and memory",
        ["backend", "keys", "bytes after 1 %", "bytes after 100 %", "memory MiB"],
        "What an epoch stores after so many of the keys were changed; and the most memory that the "
        "process had, above that of a job of a thousand keys and the input itself.",
    )
    for (backend, keys), found in zip(cases, figures, strict=True):
        table.add(
            backend,
            count(keys),
            count(found["hundredth_bytes"]),
            count(found["all_bytes"]),
            round(found["memory_bytes"] / (1 << 20)),
        )
    return table


def _in_a_process(backend: str, keys: int) -> dict[str, Any]:
    root = Path(__file__).parents[1]
    finished = subprocess.run(
        [sys.executable, "-c", _CHILD, backend, str(keys)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        capture_output=True,
        text=True,
    )
    if finished.returncode:
        raise RuntimeError(f"the job on {backend} failed:\n{finished.stderr}")
    figures: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return figures

"""Savepoints beside plain Parquet: what it takes to write all state and to start from it again.

A job of two subtasks is given every key once. Then it is stopped with a savepoint, and other jobs
start from that: at another parallelism, and with another backend. Each is timed from the call to
where it has what it asked for: the folder, or the first complete epoch, which holds all state anew.
Beside them the same rows, ``key_group``, ``key`` and ``value``, are written and read by pyarrow.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import mainstay as ms
from benchmarks.report import Size, Table, count, median
from mainstay.connectors import Generate, Memory

KEYS = 1_000_000
PARALLELISM = 2
RESTORES = [("heap", 2), ("heap", 3), ("rocksdb", 2), ("rocksdb", 3)]
_SCATTER = 1_000_003
"""Coprime to the number of keys: multiplying by it visits each of them once, in no order."""
_POLL_S = 0.005


class Total(ms.KeyedBatchProcess):
    """A value for each key."""

    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> None:
        found = self.total.get_many(batch.keys, 0)
        counts = batch.counts.tolist()
        self.total.put_many(batch.keys, [old + n for old, n in zip(found, counts, strict=True)])


def key_rows(keys: int, first: int, rows: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + rows, dtype=np.int64) * _SCATTER % keys
    return pa.RecordBatch.from_arrays([pa.array(numbers)], names=["key"])


def environment(folder: Path, keys: int, backend: str, parallelism: int, **options: Any) -> Any:
    env = ms.Environment(
        spark="embedded",
        parallelism=parallelism,
        snapshots=ms.Snapshots(folder, every="500ms"),
        state="heap" if backend == "heap" else ms.RocksDB(),
        **options,
    )
    # Unbounded, with all keys in the first rows: the job is there to be stopped.
    source = Generate("key long", partial(key_rows, keys), splits=1, rows_per_second=keys)
    totals = env.source(source, uid="numbers").key_by("key")
    totals.process_batches(Total(), "key long", uid="totals").sink(Memory(), uid="out")
    return env


def await_until(is_true: Callable[[], bool], job: Any) -> None:
    while not is_true():
        if job.status in ("failed", "finished"):
            job.wait()
        time.sleep(_POLL_S)


def rows_taken(job: Any) -> int:
    return max((metrics.rows for metrics in job.metrics().values()), default=0)


def saved(folder: Path, keys: int) -> float:
    """Seconds that a stop with a savepoint of all keys takes."""
    job = environment(folder / "older", keys, "heap", PARALLELISM).start("older")
    await_until(lambda: rows_taken(job) >= keys, job)
    began = time.perf_counter()
    job.stop(folder / "saved")
    return time.perf_counter() - began


def restored(folder: Path, keys: int, backend: str, parallelism: int) -> float:
    """Seconds until a job that starts from the savepoint has completed an epoch of its own."""
    name = f"{backend}-{parallelism}"
    env = environment(folder / name, keys, backend, parallelism, restore=folder / "saved")
    began = time.perf_counter()
    job = env.start(name)
    await_until(lambda: any(record.status == "complete" for record in job.snapshots()), job)
    took_s = time.perf_counter() - began
    job.cancel()
    job.wait()
    return took_s


def plain_parquet(folder: Path) -> tuple[float, float, int, int]:
    """Seconds to write and to read the rows of the savepoint with pyarrow; bytes and rows."""
    table = pq.read_table(folder / "saved" / "state" / "totals" / "total")
    path = folder / "plain.parquet"
    began = time.perf_counter()
    pq.write_table(table, path)
    written = time.perf_counter()
    rows = pq.read_table(path).num_rows
    return written - began, time.perf_counter() - written, path.stat().st_size, rows


def savepoint_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "saved").rglob("*.parquet"))


def measure(size: Size) -> list[Table]:
    keys = size.of(KEYS)
    taken: dict[str, list[float]] = {}
    for _ in range(min(size.repeats, 3)):
        with tempfile.TemporaryDirectory() as directory:
            for name, seconds in run_once(Path(directory), keys).items():
                taken.setdefault(name, []).append(seconds)
    table = Table(
        "Savepoints",
        ["what", "seconds", "keys/s"],
        f"{count(keys)} keys with a ValueState of long; the savepoint is written by a job of "
        f"parallelism {PARALLELISM} in one process, with state on the heap. A restore is timed to "
        "the end of the first epoch, which stores all state anew.",
    )
    for name, each in taken.items():
        seconds = median(each)
        table.add(name, f"{seconds:.2f}", count(keys / seconds))
    return [table]


def run_once(folder: Path, keys: int) -> dict[str, float]:
    taken = {"savepoint, with the stop of the job": saved(folder, keys)}
    write_s, read_s, _, rows = plain_parquet(folder)
    if rows != keys:
        raise RuntimeError(f"the savepoint has {rows} keys instead of {keys}")
    taken["pyarrow: write the same rows"] = write_s
    for backend, parallelism in RESTORES:
        what = f"restore to {backend}, parallelism {parallelism}"
        taken[what] = restored(folder, keys, backend, parallelism)
    taken["pyarrow: read the same rows"] = read_s
    return taken

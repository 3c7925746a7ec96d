"""State in RocksDB beside state in memory: what a job of many keys needs, and what it stores.

Each job runs in a process of its own. It gives every key a value, in no order, and then goes on
changing one key in a hundred. Reported are the memory above what the same job needs for a thousand
keys, the rows per second of both parts, and the bytes that went to storage in each: those of the
second part should follow the keys that it changes, not those that there are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, count
from mainstay.connectors import Generate, Memory
from mainstay.drive.process import settle_process

KEYS = 5_000_000
MEMORY = "512MiB"
UPDATES = 0.4
"""Rows of the second part, per key."""
_CHILD = (
    "import sys; from benchmarks import rocksdb_state as b; b.child(sys.argv[1], int(sys.argv[2]))"
)
_SCATTER = 1_000_003
"""Coprime to the number of keys: multiplying by it visits each of them once, in no order."""


class Total(ms.KeyedBatchProcess):
    """A running total, read and written by the batch. Notes when the second part begins."""

    total = ms.ValueState("long")
    keys = 0
    directory = ""

    def open(self, ctx: Any) -> None:
        self.rows = 0
        self.began = time.perf_counter()

    def process(self, batch: Any, ctx: Any) -> None:
        found = self.total.get_many(batch.keys, 0)
        counts = batch.counts.tolist()
        totals = [total + n for total, n in zip(found, counts, strict=True)]
        self.total.put_many(batch.keys, totals)
        before, self.rows = self.rows, self.rows + batch.batch.num_rows
        if before < Total.keys <= self.rows:
            MARKS["filled_s"] = time.perf_counter() - self.began
            MARKS["filled_bytes"] = stored_bytes(Path(Total.directory))
        MARKS["all_s"] = time.perf_counter() - self.began


MARKS: dict[str, float] = {}


def stored_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in (directory / "state").rglob("*") if file.is_file())


def key_rows(keys: int, first: int, rows: int) -> pa.RecordBatch:
    """Every key once, in no order; then one in a hundred, over and over."""
    numbers = np.arange(first, first + rows, dtype=np.int64)
    scattered = numbers * _SCATTER % keys
    chosen = np.where(numbers < keys, scattered, scattered % max(1, keys // 100))
    return pa.RecordBatch.from_arrays([pa.array(chosen)], names=["key"])


def run_job(backend: str, keys: int) -> None:
    """Run one job in this process, and leave its figures in ``MARKS``."""
    rows = keys + int(keys * UPDATES)
    with tempfile.TemporaryDirectory() as directory:
        Total.keys, Total.directory = keys, directory
        env = ms.Environment(
            spark="embedded",
            parallelism=1,
            # Everything is kept, so that what was stored can be counted.
            snapshots=ms.Snapshots(directory, every="1s", retain=10_000),
            state="heap" if backend == "heap" else ms.RocksDB(memory=MEMORY),
        )
        numbers = Generate("key long", partial(key_rows, keys), end=rows, splits=1)
        env.source(numbers, uid="numbers").key_by("key").process_batches(
            Total(), "key long", uid="totals"
        ).sink(Memory(), uid="out")
        env.start(backend).wait()
        MARKS["all_bytes"] = stored_bytes(Path(directory))
        MARKS["rows"] = rows


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def child(backend: str, keys: int) -> None:
    settle_process()
    run_job(backend, 1000)
    base = peak_bytes()
    MARKS.clear()
    run_job(backend, keys)
    print(json.dumps({**MARKS, "memory_bytes": peak_bytes() - base}))


def measure(size: Size) -> list[Table]:
    keys = size.of(KEYS)
    table = Table(
        "State in RocksDB",
        ["backend", "keys", "memory MiB", "fill rows/s", "update rows/s", "fill MB", "update MB"],
        f"Memory above that of a job of a thousand keys; RocksDB may use {MEMORY}. The updates "
        f"are {UPDATES:.0%} as many rows as the fill, over one key in a hundred.",
    )
    for backend in ("heap", "rocksdb"):
        found = _in_a_process(backend, keys)
        update_s = found["all_s"] - found["filled_s"]
        table.add(
            backend,
            count(keys),
            round(found["memory_bytes"] / (1 << 20)),
            count(round(keys / found["filled_s"])),
            count(round((found["rows"] - keys) / update_s)),
            f"{found['filled_bytes'] / 1e6:.1f}",
            f"{(found['all_bytes'] - found['filled_bytes']) / 1e6:.1f}",
        )
    return [table]


def _in_a_process(backend: str, keys: int) -> dict[str, float]:
    root = Path(__file__).parents[1]
    finished = subprocess.run(
        # Imported, not run: what the job marks must be marked in this very module.
        [sys.executable, "-c", _CHILD, backend, str(keys)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        capture_output=True,
        text=True,
    )
    if finished.returncode:
        raise RuntimeError(f"the job on {backend} failed:\n{finished.stderr}")
    figures: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return figures

"""Recovery of state in RocksDB from an object store, with copies on the host and without.

A job of two workers in this process fills RocksDB with rows of a kilobyte that nothing compresses.
Then a worker is dropped, and both start again from the last epoch. The object store is a server in
a process of its own, behind a line of 100 MB a second. How long the restore takes, on what it
depends, and how much came from where, is what ``job.recoveries()`` says.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, median
from mainstay.connectors import Polled, Source, Split, SplitReader
from mainstay.schema import to_schema
from tests.services.s3 import S3Server
from tests.services.s3_proxy import S3Proxy

STATE_BYTES = 2_000_000_000
ROW_BYTES = 1000
LINE_BYTES_PER_S = 100e6
EPOCHS = 12
"""So many that each subtask has a checkpoint of its database in the last one."""
FEW_PER_S = 100
PATIENCE_S = 1200.0


class Keeping(ms.KeyedProcess):
    """Keeps the newest value of each key."""

    value = ms.ValueState("binary")

    def process(self, row: Any, ctx: Any) -> None:
        self.value.update(row.value)


class Filling(Source):
    """A row for each key, as quickly as they are taken; then a few again, for ever."""

    bounded = False
    schema = to_schema("id long, value binary")

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [] if seen else [Split("first", 0), Split("second", 1)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _FillingReader(self, split.data, offset or 0)


class _FillingReader(SplitReader):
    def __init__(self, source: Filling, number: int, given: int) -> None:
        self._source = source
        self._number = number
        self._given = given
        self._random = np.random.default_rng(number)
        self._filled_at: float | None = None

    def poll(self, max_rows: int) -> Polled:
        ids = [(2 * at + self._number) % self._source.rows for at in self._due(max_rows)]
        if not ids:
            return Polled(None, self._given)
        self._given += len(ids)
        noise = self._random.bytes(len(ids) * ROW_BYTES)
        values = [noise[at : at + ROW_BYTES] for at in range(0, len(noise), ROW_BYTES)]
        batch = pa.record_batch([pa.array(ids, pa.int64()), values], schema=self._source.schema)
        return Polled(batch, self._given)

    def _due(self, max_rows: int) -> range:
        share = self._source.rows // 2
        if self._given >= share:
            self._filled_at = self._filled_at or time.monotonic()
            share += int((time.monotonic() - self._filled_at) * FEW_PER_S)
        return range(self._given, min(share, self._given + max_rows))


def measure(size: Size) -> list[Table]:
    rows = max(1000, size.of(STATE_BYTES) // ROW_BYTES)
    table = Table(
        "Recovery of state in RocksDB",
        ["copies on the host", "state MB", "from host MB", "from storage MB", "restore s", "CPU s"],
        f"Two workers in one process, rows of {ROW_BYTES} bytes; the storage is behind a line of "
        f"{LINE_BYTES_PER_S / 1e6:.0f} MB a second. The restore is from when the workers are there "
        "to when they run; its CPU is of the process, all threads.",
    )
    for is_on in (False, True):
        found = [_recovered(rows, is_on) for _ in range(min(size.repeats, 3))]
        seconds, cpu = median([each[2] for each in found]), median([each[3] for each in found])
        local, stored = found[-1][:2]
        total = rows * ROW_BYTES
        shown = [f"{each / 1e6:,.1f}" for each in (total, local, stored)]
        table.add("yes" if is_on else "no", *shown, f"{seconds:.2f}", f"{cpu:.2f}")
    return [table]


def _recovered(rows: int, is_on: bool) -> tuple[int, int, float, float]:
    """Bytes from the host and from storage, and the seconds and CPU seconds of a restore."""
    with _object_store(), tempfile.TemporaryDirectory() as folder:
        job = _started(rows, Path(folder), is_on)
        try:
            _await(lambda: _rows_of(job) >= rows)
            for _ in range(EPOCHS):
                job.snapshot(timeout=PATIENCE_S)
            cpu = time.process_time()
            job.crash_worker(0)
            _await(job.recoveries)
            cpu = time.process_time() - cpu
            recovery = job.recoveries()[-1]
        finally:
            job.cancel()
    return recovery.local_bytes, recovery.stored_bytes, recovery.restore_s, cpu


def _started(rows: int, folder: Path, is_on: bool) -> Any:
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(
            "s3://bucket/job", every="2s", timeout=PATIENCE_S, local_recovery=is_on
        ),
        restart=ms.Restart(backoff="10ms"),
        state=ms.RocksDB(directory=folder / "databases"),
    )
    kept = env.source(Filling(rows), uid="values").key_by("id")
    kept.process(Keeping(), "id long", uid="kept").sink(ms.connectors.Memory(), uid="out")
    return env.start("kept")


def _rows_of(job: Any) -> int:
    """How many rows have reached the state."""
    taken = (each.counts.get("kept", (0, 0))[0] for each in job.metrics().values())
    return sum(taken)


def _await(what: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError("the job has not come so far in time")
        time.sleep(0.05)


@contextmanager
def _object_store() -> Iterator[None]:
    """A server and the line to it, in a process that has no other work."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    process.start()
    before = dict(os.environ)
    os.environ.update(here.recv())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        here.send(None)
        process.join()


def _serve(pipe: Connection) -> None:
    server = S3Server()
    proxy = S3Proxy(server.port, bytes_per_s=LINE_BYTES_PER_S)
    pipe.send(proxy.environment)
    pipe.recv()
    proxy.close()
    server.close()

"""Rows a second into and out of files, beside bare pyarrow in the same run.

``python -m benchmarks.connectors.files`` writes ``benchmarks/results/connectors-files.md``. The
sinks run in a whole job in one process, with epochs, commits and fsync; the bare loop writes the
same batches into one file and flushes it once. The source reads into a sink that counts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import mainstay as ms
from benchmarks.report import Table, add_beside, write_report
from mainstay.connectors import (
    Files,
    ParquetSink,
    Polled,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    SplitReader,
)
from mainstay.connectors.files.sink import FileSink
from mainstay.connectors.formats.json_rows import json_rows
from mainstay.schema import to_schema

ROWS = 1_000_000
BATCH = 8192
REPEATS = 3
SCHEMA = to_schema("id long, customer string, amount double, at timestamp")
RESULT = Path(__file__).parents[1] / "results" / "connectors-files.md"


def orders(rows: int = ROWS) -> pa.RecordBatch:
    rng = np.random.default_rng(7)
    customers = pa.array([f"customer {n}" for n in range(1_000)])
    columns = [
        pa.array(np.arange(rows)),
        customers.take(pa.array(rng.integers(0, 1_000, rows))),
        pa.array(rng.random(rows) * 100),
        pa.array(np.arange(rows) * 1_000, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Given(Source):
    """A batch that was made before, in pieces."""

    schema = SCHEMA

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("all")]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _GivenReader(self.batch, offset or 0)


class _GivenReader(SplitReader):
    def __init__(self, batch: pa.RecordBatch, at: int) -> None:
        self._batch = batch
        self._at = at

    def poll(self, max_rows: int) -> Polled:
        taken = self._batch.slice(self._at, min(max_rows, BATCH))
        self._at += taken.num_rows
        return Polled(taken, self._at, finished=self._at >= self._batch.num_rows)


class Counting(Sink):
    """Takes rows and forgets them."""

    def open(self, context: SinkContext) -> SinkWriter:
        return _CountingWriter()


class _CountingWriter(SinkWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        return

    def prepare(self, epoch: int) -> None:
        return


def job(source: Source, sink: Sink, folder: Path) -> float:
    """The seconds of a whole job, from its start to the last commit."""
    env = ms.Environment(
        spark="embedded", parallelism=1, snapshots=ms.Snapshots(folder / "snapshots", every="1s")
    )
    env.source(source, uid="in").sink(sink, uid="out")
    began = time.perf_counter()
    if env.start("bench").wait() != "finished":
        raise RuntimeError("the job did not finish")
    return time.perf_counter() - began


def bare_write(batch: pa.RecordBatch, format: str, path: Path) -> float:
    began = time.perf_counter()
    pieces = [batch.slice(at, BATCH) for at in range(0, batch.num_rows, BATCH)]
    with open(path, "wb") as file:
        if format == "parquet":
            with pq.ParquetWriter(file, batch.schema, compression="zstd") as writer:
                for start in range(0, len(pieces), 8):
                    writer.write_table(pa.Table.from_batches(pieces[start : start + 8]))
        elif format == "csv":
            with pa.csv.CSVWriter(file, batch.schema) as csv:
                for piece in pieces:
                    csv.write_batch(piece)
        else:
            for piece in pieces:
                file.write("".join(f"{row}\n" for row in json_rows(piece)).encode())
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - began


def bare_read(format: str, path: Path) -> float:
    began = time.perf_counter()
    if format == "parquet":
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(BATCH, use_threads=False):
                pass
    elif format == "csv":
        options = pa.csv.ReadOptions(use_threads=False)
        for _ in pa.csv.open_csv(path, read_options=options):
            pass
    else:
        pa.json.read_json(path, read_options=pa.json.ReadOptions(use_threads=False))
    return time.perf_counter() - began


def measure(rows: int = ROWS, repeats: int = REPEATS) -> list[Table]:
    batch = orders(rows)
    folder = Path(tempfile.mkdtemp())
    try:
        return [_writing(batch, folder, repeats), _reading(batch, folder, repeats)]
    finally:
        shutil.rmtree(folder)


def _writing(batch: pa.RecordBatch, folder: Path, repeats: int) -> Table:
    table = Table("Writing files", ["sink", "rows/s", "bare pyarrow rows/s", "ratio"])
    numbers = iter(range(10_000))

    def place() -> Path:
        path = folder / str(next(numbers))
        path.mkdir()
        return path

    sinks: dict[str, tuple[str, Callable[[Path], Sink]]] = {
        "ParquetSink": ("parquet", lambda path: ParquetSink(path)),
        "FileSink, parquet": ("parquet", lambda path: FileSink(path)),
        "FileSink, csv": ("csv", lambda path: FileSink(path, format="csv")),
        "FileSink, json": ("json", lambda path: FileSink(path, format="json")),
        "FileSink, csv, merged": ("csv", lambda p: FileSink(p, format="csv", compact="128MiB")),
    }
    for name, (format, make) in sinks.items():
        ours, bare = [], []
        for _ in range(repeats):
            ours.append(job(Given(batch), make(place() / "out"), place()))
            bare.append(bare_write(batch, format, place() / "file"))
        add_beside(table, name, batch.num_rows, ours, bare)
    return table


def _reading(batch: pa.RecordBatch, folder: Path, repeats: int) -> Table:
    table = Table("Reading files", ["source", "rows/s", "bare pyarrow rows/s", "ratio"])
    for format in ("parquet", "csv", "json"):
        path = folder / f"data.{format}"
        bare_write(batch, format, path)
        for malformed in ("fail",) if format == "parquet" else ("fail", "skip"):
            ours, bare = [], []
            for turn in range(repeats):
                place = folder / f"read-{format}-{malformed}-{turn}"
                source = Files(path, schema=SCHEMA, malformed=malformed)
                ours.append(job(source, Counting(), place))
                bare.append(bare_read(format, path))
            add_beside(table, f"Files, {format}, {malformed}", batch.num_rows, ours, bare)
    return table


def main() -> None:
    note = (
        f"{ROWS:,} rows of four columns, one subtask, an epoch a second, the median of {REPEATS}. "
        "A job's time includes starting it and its last epoch. The bare loop writes the same rows "
        "to one file, for JSON with the same encoder."
    )
    write_report(RESULT, "Files", note, measure())


if __name__ == "__main__":
    main()

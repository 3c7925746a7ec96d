"""A streaming DataFrame through keyed state into Parquet, with the query and the job hit on it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.files.committed import read_committed
from tests.spark.test_dataframes import FilesOfNumbers, Total, await_that, started

pytestmark = pytest.mark.spark


def committed(path: Path) -> int:
    return read_committed(path).num_rows if (path / "_spark_metadata").exists() else 0


def test_a_stream_reaches_parquet_exactly_once_through_kills(spark: Any, tmp_path: Path) -> None:
    files = FilesOfNumbers(spark, tmp_path / "files")
    target = tmp_path / "totals"
    for start in range(0, 500, 100):
        files.add(range(start, start + 100))
    sink: Any = ms.connectors.ParquetSink(str(target))
    job = started(files.df, tmp_path / "job", Total(), sink, every="300ms")
    await_that(lambda: committed(target) > 0, job, "a committed row")

    os.kill(job.workers()[1][1], signal.SIGKILL)
    for start in range(500, 1_000, 100):
        files.add(range(start, start + 100))
    await_that(lambda: committed(target) >= 600, job, "what came after the kill")

    (query,) = spark.streams.active
    query.stop()
    for start in range(1_000, 1_500, 100):
        files.add(range(start, start + 100))
    await_that(lambda: committed(target) >= 1_500, job, "what came after the query was stopped")
    job.cancel()
    assert len(job.attempts()) > 1

    rows = [tuple(row) for row in spark.read.parquet(str(target)).collect()]
    assert sorted(n for _, n, _ in rows) == list(range(1_500))
    last: dict[int, int] = {}
    for key, _, total in rows:
        last[key] = max(total, last.get(key, 0))
    assert last == {key: sum(range(key, 1_500, 7)) for key in range(7)}

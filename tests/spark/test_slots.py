"""Slots of two jobs that are started one right after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import SlotsError

pytestmark = pytest.mark.spark

PATIENCE_S = 60.0


def started(spark: Any, folder: Path, workers: int) -> Any:
    env = ms.Environment(spark=spark, parallelism=workers, snapshots=ms.Snapshots(folder))
    source = ms.connectors.Generate("n long", _rows, splits=1, rows_per_second=10)
    env.source(source, uid="numbers").sink(ms.connectors.Memory(), uid="out")
    return env.start(folder.name)


def _rows(first: int, rows: int) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array(range(first, first + rows))], names=["n"])


def test_a_job_whose_slots_are_promised_to_one_that_just_started_is_refused(
    spark: Any, tmp_path: Path
) -> None:
    from mainstay.spark.launch.classic_cluster import ClassicCluster

    total = ClassicCluster(spark).slots().total
    first = started(spark, tmp_path / "first", total - 1)
    try:
        with pytest.raises(SlotsError, match=rf"has {total}, of which 1 is free"):
            started(spark, tmp_path / "second", 2)
    finally:
        first.cancel()
    second = started(spark, tmp_path / "third", 2)
    second.cancel()

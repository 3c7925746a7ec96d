"""A job on Spark is rescaled, stopped, and restored elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow.parquet as pq
import pytest

import tests.drive.ledger as ledger_module
from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import SlotsError
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_attempt

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def the_job_travels_by_value() -> Iterator[None]:
    """Spark's Python processes cannot import the tests."""
    cloudpickle.register_pickle_by_value(ledger_module)
    yield
    cloudpickle.unregister_pickle_by_value(ledger_module)


def start(spark: Any, ledger: LedgerJob, **options: Any) -> RemoteJob:
    from mainstay.spark.launch.cluster import cluster_of
    from mainstay.spark.launch.launcher import SparkLauncher

    return ledger.start(SparkLauncher(cluster_of(spark), "ledger"), **options)


def test_rescaled_stopped_and_restored_from_the_savepoint(spark: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=9_000, per_second=2_000.0, workers=2)
    job = start(spark, ledger)
    await_attempt(job, 1, 2)
    job.rescale(3, PATIENCE_S)
    await_attempt(job, 2, 3)
    saved = job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    assert job.wait(PATIENCE_S) == "stopped"

    table = spark.read.parquet(f"{saved}/state/ledger/seen")
    assert table.columns == ["key_group", "key", "value"]
    assert table.count() == pq.read_table(f"{saved}/state/ledger/seen").num_rows > 0

    (tmp_path / "other").mkdir()
    other = LedgerJob(tmp_path / "other", count=9_000, per_second=2_000.0, workers=4)
    other.shelf.folder.rmdir()
    ledger.shelf.folder.rename(other.shelf.folder)
    assert start(spark, other, origin=saved).wait(PATIENCE_S) == "finished"
    other.check()


def test_a_rescale_beyond_the_slots_is_refused_with_the_numbers(spark: Any) -> None:
    from mainstay.spark.launch.classic_cluster import ClassicCluster

    cluster = ClassicCluster(spark)
    total = cluster.slots().total
    cluster.check_rescale(total, running=3)
    numbers = rf"needs {total + 1} slots; 3 are its own and {total - 3} are free"
    with pytest.raises(SlotsError, match=numbers):
        cluster.check_rescale(total + 1, running=3)

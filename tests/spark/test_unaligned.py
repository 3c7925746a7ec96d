"""Unaligned snapshots on Spark: kills with full queues, and another mode and parallelism after."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tests.drive.ledger as ledger_module
import tests.drive.test_unaligned as unaligned_module
from tests.drive.ledger import PATIENCE_S, await_attempt
from tests.drive.test_unaligned import (
    WORKERS,
    await_held_rows,
    chained,
    in_flight,
    in_turn,
    slow_ledger,
    slow_maps,
)

pytestmark = pytest.mark.spark

MODULES = (ledger_module, unaligned_module)


@pytest.fixture(autouse=True)
def the_job_travels_by_value() -> Iterator[None]:
    """Spark's Python processes cannot import the tests."""
    for module in MODULES:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in MODULES:
        cloudpickle.unregister_pickle_by_value(module)


def launcher(spark: Any) -> Any:
    from mainstay.spark.launch.cluster import cluster_of
    from mainstay.spark.launch.launcher import SparkLauncher

    return SparkLauncher(cluster_of(spark), "ledger")


def test_in_flight_rows_survive_the_kill_of_a_worker_on_spark(spark: Any, tmp_path: Path) -> None:
    ledger = slow_ledger(tmp_path, WORKERS)
    job = ledger.start(launcher(spark))
    pids = await_attempt(job, 1, WORKERS)
    await_held_rows(ledger, job)
    os.kill(pids[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    assert any(record.is_unaligned for record in job.snapshots())
    ledger.check()


def test_in_flight_rows_on_spark_go_to_another_mode_and_chain(spark: Any, tmp_path: Path) -> None:
    ledger = slow_maps(tmp_path, WORKERS, in_turn)
    job = ledger.start(launcher(spark))
    await_attempt(job, 1, WORKERS)
    await_held_rows(ledger, job)
    job.cancel()
    assert in_flight(ledger)
    fused = slow_maps(tmp_path, 2, chained, mode="exactly_once")
    assert fused.start(launcher(spark), restore="latest").wait(PATIENCE_S) == "finished"
    fused.check()

"""Compiled functions on Spark, with a worker killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tests.drive.compiled_ledger as compiled_module
import tests.drive.ledger as ledger_module
from mainstay.drive.compiling import compile_functions
from tests.drive.compiled_ledger import CompiledLedgerJob
from tests.drive.ledger import PATIENCE_S, await_attempt

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def the_job_travels_by_value() -> Iterator[None]:
    """Spark's Python processes cannot import the tests."""
    for module in (ledger_module, compiled_module):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (ledger_module, compiled_module):
        cloudpickle.unregister_pickle_by_value(module)


def test_every_row_counts_once_although_a_worker_is_killed(spark: Any, tmp_path: Path) -> None:
    from mainstay.spark.launch.cluster import cluster_of
    from mainstay.spark.launch.launcher import SparkLauncher

    ledger = CompiledLedgerJob(tmp_path, count=10_000)
    compile_functions(ledger.spec)
    job = ledger.start(SparkLauncher(cluster_of(spark), "compiled"))
    try:
        os.kill(await_attempt(job, 1, 3)[1], signal.SIGKILL)
        assert job.wait(PATIENCE_S) == "finished"
    finally:
        job.cancel()
    assert len(job.attempts()) == 2
    ledger.check()

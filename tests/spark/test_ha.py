"""Two drivers of one job on Spark: the lead passes, and the Spark job of the old leader ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import mainstay as ms
import tests.drive.ledger as ledger_module
from mainstay.drive.electing import election_of
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_until, complete_epochs
from tests.elections import Candidate

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def the_job_travels_by_value() -> Iterator[None]:
    """Spark's Python processes cannot import the tests."""
    cloudpickle.register_pickle_by_value(ledger_module)
    yield
    cloudpickle.unregister_pickle_by_value(ledger_module)


def launcher(session: Any) -> Any:
    from mainstay.spark.launch.cluster import cluster_of
    from mainstay.spark.launch.launcher import SparkLauncher

    return SparkLauncher(cluster_of(session), "ledger")


def test_a_driver_takes_over_and_the_workers_of_the_other_are_ended(
    spark: Any, tmp_path: Path
) -> None:
    ledger = LedgerJob(tmp_path, count=18_000, workers=2)
    first, second = Candidate(), Candidate()
    one = ledger.start(launcher(spark), election=first)
    other = ledger.start(launcher(spark), election=second)
    try:
        first.elect()
        await_until(lambda: complete_epochs(one) >= 2, "the first driver has completed epochs")
        first.lose()
        await_until(lambda: one.status == "standby" and not one.workers(), "it stands by")
        second.elect()
        assert other.wait(PATIENCE_S) == "finished"
        ledger.check()
        assert other.attempts()[0].restored_from is not None
    finally:
        one.cancel()
        other.cancel()


def test_a_driver_on_spark_leads_by_its_lease(spark: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=6_000, workers=2)
    ha = ms.HighAvailability(lease="2s")
    election = election_of(ha, "ledger", ledger.directory)
    job = ledger.start(launcher(spark), election=election, restore="latest-or-new")
    assert job.wait(PATIENCE_S) == "finished"
    ledger.check()
    assert job.exit_code == 0

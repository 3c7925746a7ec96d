"""Jobs over several hosts, some of which are lost: results are exact, and how long it took is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.driving import RemoteDriver, RunningLedger

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("hosts")]

Report = Callable[[str, object], None]


def begun(driver: RemoteDriver, folder: Path, **settings: object) -> RunningLedger:
    """A ledger with a worker on each of two hosts, which has completed an epoch."""
    job = driver.start(folder, **settings)
    job.await_epoch()
    assert job.hosts() == {"w1", "w2"}
    return job


def test_a_host_that_is_cut_off_is_left_out_and_every_row_counts_once(
    driver: RemoteDriver, tmp_path: Path, record_property: Report
) -> None:
    job = begun(driver, tmp_path)
    cut_at = time.time()
    driver.cluster.hosts.cut("w2")
    job.await_epoch(after=1)
    assert job.hosts() == {"w1"}
    print(job.first_record_after(cut_at))
    print(driver.warnings())
    driver.cluster.hosts.mend("w2")
    job.finish()

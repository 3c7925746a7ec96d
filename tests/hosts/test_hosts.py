"""Jobs over several hosts, of which one is lost: exact results, and how long it took is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.driving import RemoteDriver, begun

pytestmark = pytest.mark.spark

Report = Callable[[str, object], None]
MOST_KILLS = 10


def test_a_host_that_is_cut_off_is_left_out_and_every_row_counts_once(
    driver: RemoteDriver, tmp_path: Path, record_property: Report
) -> None:
    job = begun(driver, tmp_path, patience={"silence_s": 4.0})
    before, cut_at = job.attempt(), time.time()
    driver.cluster.hosts.cut("w2")
    job.await_epoch(after=before)
    assert job.hosts() == {"w1"}
    record_property("seconds until it ran again", job.first_record_after(cut_at))
    address = driver.cluster.hosts.address("w2")
    (said,) = [line for line in driver.warnings() if "taken out of Spark" in line]
    assert f"host {address}, with worker" in said
    assert "was not heard of for 4 s; taken out of Spark before the next attempt: executor" in said
    driver.cluster.hosts.mend("w2")
    job.finish()


def test_a_host_that_is_rebooted_is_not_left_out_and_every_row_counts_once(
    driver: RemoteDriver, tmp_path: Path, record_property: Report
) -> None:
    job = begun(driver, tmp_path)
    before, rebooted_at = job.attempt(), time.time()
    driver.cluster.reboot("w2")
    job.await_epoch(after=before)
    record_property("seconds until it ran again", job.first_record_after(rebooted_at))
    assert not [line for line in driver.warnings() if "taken out of Spark" in line]
    job.finish()


def test_a_driver_that_is_cut_off_for_5_s_goes_on_with_the_same_attempt(
    driver: RemoteDriver, tmp_path: Path, record_property: Report
) -> None:
    job = begun(driver, tmp_path)
    before, cut_at = job.attempt(), time.time()
    driver.cluster.hosts.cut("d")
    time.sleep(5.0)
    driver.cluster.hosts.mend("d")
    job.await_output_after(time.time())
    record_property("seconds until it ran again", job.first_record_after(cut_at))
    assert job.attempt() == before
    job.finish()


def test_workers_find_their_state_on_their_hosts_wherever_spark_puts_partitions(
    driver: RemoteDriver, tmp_path: Path, record_property: Report
) -> None:
    """All slots are taken, so that each host has two of the workers again.

    Spark has two ways to place them, and takes the other one every second time: it is tried until
    it has.
    """
    job = begun(driver, tmp_path, workers=4, keeps=True)
    moved: list[int] = []
    while len(moved) < 2 or (not any(moved) and len(moved) < MOST_KILLS):
        before = job.attempt()
        (_, pid), *_ = job.look()["workers"]
        os.kill(pid, signal.SIGKILL)
        seen = job.await_epoch(after=before)
        local, stored = seen["recoveries"][-1]
        assert local > 0
        assert stored == 0
        moved.append(seen["moved"])
    record_property("workers with another number than their partition", moved)
    assert any(moved)
    job.finish()

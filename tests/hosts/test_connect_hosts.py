"""Spark Connect over several hosts: a server, two hosts with executors, and a client on its own."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.driving import ROOT, RemoteDriver, begun
from tests.hosts.program import run
from tests.services.spark_hosts import DRIVER

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.xdist_group("connect hosts")]

FINISHED = [("alice", 5), ("alice", 7), ("bob", 3)]
TOTALS = [list(row) for row in FINISHED]
Report = Callable[[str, object], None]


def run_first_job(client: RemoteDriver, folder: Path, host: str | None = None) -> list[object]:
    return client.tell("first_job", folder=str(folder / "snapshots"), coordinator_host=host)


def test_the_first_job_finds_the_address_of_its_client_and_outlives_a_worker(
    client: RemoteDriver, tmp_path: Path, record_property: Report
) -> None:
    """Of several interfaces the one is taken that leads to the server."""
    hosts = client.cluster.hosts
    hosts.add_interface(DRIVER, "10.78.0.1")
    rows, coordinator = run_first_job(client, tmp_path)
    assert rows == TOTALS
    assert str(coordinator).startswith(f"tcp://{hosts.address(DRIVER)}:")

    job = begun(client, tmp_path)
    before, killed_at = job.attempt(), time.time()
    (_, pid), *_ = job.look()["workers"]
    os.kill(pid, signal.SIGKILL)
    job.await_epoch(after=before)
    record_property("seconds until it ran again", job.first_record_after(killed_at))
    job.finish()


def test_the_commands_of_the_documentation_run_the_first_job_and_the_demonstration(
    client: RemoteDriver, tmp_path: Path
) -> None:
    """As programs of their own, each a client of the server."""
    options: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "timeout": 400.0}
    first = ["mainstay", "run", str(ROOT / "examples" / "order_totals.py"), "--master", "{master}"]
    done = run(client.cluster, *first, "--snapshots", str(tmp_path / "totals"), **options)
    assert done.stdout.splitlines()[0] == f"finished {FINISHED}", done.stderr
    demo = ["mainstay", "demo", "--master", "{master}", "--directory", "{folder}"]
    done = run(client.cluster, *demo, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"worker 1 is killed \(kill -9 \d+ on 10\.77\.0\.1[23]\)", done.stdout)
    assert "state and output have every order exactly once" in done.stdout


def test_a_client_is_reached_by_the_name_that_it_was_told(
    client: RemoteDriver, tmp_path: Path
) -> None:
    rows, coordinator = run_first_job(client, tmp_path, DRIVER)
    assert rows == TOTALS
    assert str(coordinator).startswith(f"tcp://{DRIVER}:")


def test_a_wrong_address_is_refused_with_where_it_was_tried_from(
    client: RemoteDriver, tmp_path: Path
) -> None:
    name, text = run_first_job(client, tmp_path, "10.77.0.99")
    assert name == "SparkSetupError"
    assert re.search(r"from w[12] \(10\.77\.0\.1[23]\) to 10\.77\.0\.99:\d+: ", str(text)), text
    assert "The address is coordinator_host='10.77.0.99'" in str(text)


def test_a_client_that_one_host_cannot_reach_is_refused_with_both_addresses(
    client: RemoteDriver, tmp_path: Path
) -> None:
    """Executors of the other host reach it: it is not slots that are missing."""
    hosts = client.cluster.hosts
    hosts.lose_way(DRIVER, "w1")
    try:
        name, text = run_first_job(client, tmp_path)
    finally:
        hosts.find_way(DRIVER, "w1")
    assert name == "SparkSetupError", text
    there = re.escape(hosts.address(DRIVER))
    assert re.search(rf"from w1 \({hosts.address('w1')}\) to {there}:\d+: timed out", str(text))
    assert "that of this machine on the way to the Connect server '10.77.0.11'" in str(text)


def test_a_host_that_is_cut_off_is_said_to_be_lost_and_every_row_counts_once(
    client: RemoteDriver, tmp_path: Path, record_property: Report
) -> None:
    """A client takes nothing out of Spark, so the next attempt waits until Spark knows."""
    job = begun(client, tmp_path)
    before, cut_at = job.attempt(), time.time()
    client.cluster.hosts.cut("w2")
    job.await_epoch(after=before)
    assert job.hosts() == {"w1"}
    record_property("seconds until it ran again", job.first_record_after(cut_at))
    (said,) = [line for line in client.warnings() if "Spark could not be told" in line]
    assert f"host {client.cluster.hosts.address('w2')}, with worker" in said
    assert "It notices by itself, after spark.worker.timeout" in said
    client.cluster.hosts.mend("w2")
    job.finish()

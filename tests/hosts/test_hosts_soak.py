"""Jobs over three hosts under what happens to networks less often; results are exact."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.driving import RemoteDriver, begun
from tests.services.hosts import why_not
from tests.services.spark_hosts import SparkHosts

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SILENT = {"silence_s": 4.0}


@pytest.fixture(scope="module")
def _three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteDriver]:
    pytest.importorskip("pyspark")
    if missing := why_not():
        pytest.skip(f"no hosts: {missing}")
    with SparkHosts(tmp_path_factory.mktemp("three"), workers=3) as cluster:
        yield RemoteDriver(cluster)


@pytest.fixture
def three(_three: RemoteDriver) -> Iterator[RemoteDriver]:
    _three.await_all_slots()
    yield _three
    for name in _three.cluster.hosts.names:
        _three.cluster.hosts.mend(name)
    _three.tell("cancel")


def test_two_of_three_hosts_are_lost_and_the_job_goes_on_with_what_is_left(
    three: RemoteDriver, tmp_path: Path
) -> None:
    job = begun(three, tmp_path, workers=3, least=1, patience=SILENT)
    before = job.attempt()
    for name in ("w2", "w3"):
        three.cluster.hosts.cut(name)
    seen = job.await_epoch(after=before)
    assert seen["parallelism"] == [2, 3]
    assert job.hosts() == {"w1"}
    assert any("with 2 of its 3 workers" in problem for problem in job.look()["problems"])
    left = [line for line in three.warnings() if "taken out of Spark" in line]
    assert len(left) == 2
    for name in ("w2", "w3"):
        three.cluster.hosts.mend(name)
    seen = job.await_look(lambda seen: seen["parallelism"] == [3, 3], "it has grown again")
    assert "rescaled" in [reason for _, reason in seen["attempts"]]
    job.finish()


def test_a_job_that_may_not_be_run_with_fewer_says_what_it_needs_and_waits(
    three: RemoteDriver, tmp_path: Path
) -> None:
    job = begun(three, tmp_path, workers=3, patience=SILENT)
    before = job.attempt()
    for name in ("w2", "w3"):
        three.cluster.hosts.cut(name)
    job.await_look(
        lambda seen: any("it needs 3, one" in text for text in seen["problems"]),
        "it says how many slots it needs",
    )
    for name in ("w2", "w3"):
        three.cluster.hosts.mend(name)
    job.await_epoch(after=before)
    job.finish()


def test_a_slow_and_lossy_host_is_no_lost_one(three: RemoteDriver, tmp_path: Path) -> None:
    job = begun(three, tmp_path, workers=3)
    before = job.attempt()
    three.cluster.hosts.slow("w2", 0.025, loss=0.01)
    time.sleep(15.0)
    assert job.attempt() == before
    job.finish()


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_host_that_is_cut_off_one_way_is_left_out(
    three: RemoteDriver, tmp_path: Path, way: str
) -> None:
    """Its heartbeats do not come, or soon end, since a connection needs both ways."""
    job = begun(three, tmp_path, workers=3, patience=SILENT)
    before = job.attempt()
    three.cluster.hosts.cut("w2", way)
    job.await_epoch(after=before)
    assert job.hosts() == {"w1", "w3"}
    (said,) = [line for line in three.warnings() if "taken out of Spark" in line]
    assert f"host {three.cluster.hosts.address('w2')}, with worker" in said
    three.cluster.hosts.mend("w2")
    job.finish()


def test_a_driver_that_is_back_within_the_lease_goes_on_with_the_same_attempt(
    three: RemoteDriver, tmp_path: Path
) -> None:
    """Longer than its patience with a single worker."""
    job = begun(three, tmp_path, workers=3, patience=SILENT)
    before = job.attempt()
    three.cluster.hosts.cut("d")
    said = "has heard of no worker on any of 3 hosts"
    job.await_look(lambda seen: any(said in text for text in seen["problems"]), "it says so")
    three.cluster.hosts.mend("d")
    job.await_output_after(time.time())
    assert job.attempt() == before
    job.finish()


def test_a_driver_that_is_cut_off_for_20_s_blames_no_host(
    three: RemoteDriver, tmp_path: Path
) -> None:
    job = begun(three, tmp_path, workers=3)
    before = job.attempt()
    three.cluster.hosts.cut("d")
    time.sleep(20.0)
    three.cluster.hosts.mend("d")
    job.await_epoch(after=before)
    assert not [line for line in three.warnings() if "taken out of Spark" in line]
    job.finish()

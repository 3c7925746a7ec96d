"""The commands of the documentation on a standalone cluster over four hosts, as programs there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.driving import ROOT
from tests.hosts.program import run
from tests.services.hosts import why_not
from tests.services.spark_hosts import SparkHosts

pytestmark = [pytest.mark.spark, pytest.mark.soak]

FINISHED = [("alice", 5), ("alice", 7), ("bob", 3)]
PATIENCE_S = 900.0
"""On a machine that has other work."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHosts]:
    """One without a driver: that is the command, and takes all slots."""
    pytest.importorskip("pyspark")
    if missing := why_not():
        pytest.skip(f"no hosts: {missing}")
    with SparkHosts(tmp_path_factory.mktemp("commands")) as cluster:
        yield cluster


def said_by(cluster: SparkHosts, folder: Path, *command: str) -> str:
    options: dict[str, Any] = {"cwd": folder, "capture_output": True, "timeout": PATIENCE_S}
    done = run(cluster, *command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_job_runs_on_the_hosts_of_the_cluster(
    cluster: SparkHosts, tmp_path: Path
) -> None:
    first = ["mainstay", "run", str(ROOT / "examples" / "order_totals.py"), "--master", "{master}"]
    said = said_by(cluster, tmp_path, *first, "--snapshots", "{folder}/totals")
    assert said.splitlines()[0] == f"finished {FINISHED}"
    assert any((cluster.folder / "shared" / "totals").iterdir())


def test_the_demonstration_kills_a_worker_on_a_host_and_counts_every_order_once(
    cluster: SparkHosts, tmp_path: Path
) -> None:
    demo = ["mainstay", "demo", "--master", "{master}", "--directory", "{folder}"]
    said = said_by(cluster, tmp_path, *demo)
    assert re.search(r"worker 1 is killed \(kill -9 \d+ on 10\.77\.0\.1[23]\)", said)
    assert "state and output have every order exactly once" in said

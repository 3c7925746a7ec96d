"""Programs under ``spark-submit``, on a machine and on a standalone cluster; YARN is elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.standalone import StandaloneCluster
from tests.spark.submitting import PROGRAM, Outcome, submitted, zipped

pytestmark = pytest.mark.spark


def test_a_program_on_this_machine_has_the_package_from_an_archive(tmp_path: Path) -> None:
    files = ["--py-files", str(zipped(tmp_path))]
    done = submitted("--master", "local[3]", *files, str(PROGRAM), str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    outcome = Outcome(tmp_path)
    outcome.check()
    assert outcome.said["master"] == "local[3]"
    assert outcome.said["application"] == PROGRAM.name
    assert "mainstay.zip" in outcome.said["package"]
    assert all("mainstay.zip" in place for place in outcome.packages())


@pytest.mark.soak
def test_a_program_that_is_submitted_to_no_master_has_slots_enough(tmp_path: Path) -> None:
    done = submitted(str(PROGRAM), str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    outcome = Outcome(tmp_path)
    outcome.check()
    assert outcome.said["master"] == "local[4]"


def test_a_program_on_a_standalone_cluster_runs_there(tmp_path: Path) -> None:
    files = ["--py-files", str(zipped(tmp_path)), "--executor-memory", "512m"]
    with StandaloneCluster(tmp_path) as cluster:
        where = ["--master", cluster.master]
        done = submitted(*where, *files, str(PROGRAM), str(tmp_path), folder=tmp_path)
        refused = submitted(
            *where, "--deploy-mode", "cluster", str(PROGRAM), str(tmp_path), folder=tmp_path
        )
    assert done.returncode == 0, done.stderr
    outcome = Outcome(tmp_path)
    outcome.check()
    assert outcome.said["master"] == cluster.master
    assert "mainstay.zip" in outcome.said["package"]
    assert "Cluster deploy mode is currently not supported for python" in refused.stderr

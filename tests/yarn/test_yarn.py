"""Jobs on YARN: in client and in cluster mode, with workers and executors killed, from archives."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import LedgerJob, await_until
from tests.pages import ROOT
from tests.services.yarn import YarnCluster
from tests.spark.submitting import PATIENCE_S, PROGRAM, Outcome, submitted, zipped
from tests.yarn.packing import packed_environment

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.soak]

YARN = ("--master", "yarn")
CLUSTER = (*YARN, "--deploy-mode", "cluster")


def python_of_nodes(python: str) -> list[str]:
    names = ("spark.yarn.appMasterEnv.PYSPARK_PYTHON", "spark.executorEnv.PYSPARK_PYTHON")
    return [word for name in names for word in ("--conf", f"{name}={python}")]


# ---------------------------------------------------------------- client mode


def first_job() -> tuple[str, str]:
    """The program of the README, for Spark, and what it prints."""
    text = (ROOT / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    program, printed = found.groups()
    assert 'spark="embedded",' in program
    return program.replace('spark="embedded",', ""), printed


def test_the_first_job_of_the_readme_runs_as_it_is(yarn: YarnCluster, tmp_path: Path) -> None:
    program, printed = first_job()
    (tmp_path / "job.py").write_text(program)
    done = submitted(*YARN, "job.py", environment=yarn.environment, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def workers(yarn: YarnCluster) -> list[psutil.Process]:
    """The Python processes that are workers of a job, by the sockets that these have."""
    below = [child for each in yarn.executors() for child in each.children(recursive=True)]
    return [each for each in below if is_linked(each)]


def is_linked(process: psutil.Process) -> bool:
    try:
        return any("mainstay" in str(each.laddr) for each in process.net_connections("unix"))
    except psutil.NoSuchProcess:
        return False


def epochs_after(ledger: LedgerJob, driver: subprocess.Popen[str]) -> Callable[[int], None]:
    """Waits until the job has completed so many epochs more than it had."""
    storage = open_storage(ledger.directory)

    def latest() -> int:
        assert driver.poll() is None, "the driver has ended"
        found = read_history(storage).latest_epoch
        return 0 if found is None else found.epoch

    def wait(more: int) -> None:
        until = latest() + more
        await_until(lambda: latest() >= until, f"epoch {until} is complete", PATIENCE_S)

    return wait


def test_a_killed_worker_and_a_killed_executor_are_survived(
    yarn: YarnCluster, tmp_path: Path
) -> None:
    ledger = LedgerJob(tmp_path, count=200_000)
    command = [sys.executable, "-m", "tests.spark.cluster_driver", "yarn", str(tmp_path)]
    driver = subprocess.Popen(
        [*command, str(ledger.count), "500"],
        cwd=ROOT,
        env=yarn.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with ExitStack() as closing:
        closing.callback(driver.communicate)
        closing.callback(driver.kill)
        wait = epochs_after(ledger, driver)
        wait(2)
        workers(yarn)[0].kill()
        wait(4)
        before = yarn.executors()
        assert len(before) == 2
        before[0].kill()
        await_until(
            lambda: len(set(yarn.executors()) - set(before)) == 1,
            "YARN has started another executor",
            PATIENCE_S,
        )
        wait(4)
        ledger.hurry.touch()
        output, _ = driver.communicate(timeout=PATIENCE_S)
    assert output.strip() == "finished 3"
    ledger.check()


def mainstay(yarn: YarnCluster, *arguments: str) -> str:
    """What a command prints, which must end well."""
    command = [sys.executable, "-m", "mainstay.cli", *arguments, "--master", "yarn"]
    environment = yarn.environment
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_commands_of_the_page_run_the_first_job_and_the_demonstration(
    yarn: YarnCluster, tmp_path: Path
) -> None:
    job = ["run", "examples/order_totals.py", "--snapshots", str(tmp_path / "totals")]
    assert mainstay(yarn, *job).startswith("finished [('alice', 5), ('alice', 7), ('bob', 3)]")
    said = mainstay(yarn, "demo", "--directory", str(tmp_path))
    assert re.search(r"worker 1 is killed \(kill -9 \d+ on \S+\)", said), said
    assert "state and output have every order exactly once" in said


# ---------------------------------------------------------------- archives


@pytest.mark.parametrize("mode", [YARN, CLUSTER], ids=["client", "cluster"])
def test_a_driver_here_or_there_has_the_package_from_an_archive(
    mode: tuple[str, ...], yarn: YarnCluster, tmp_path: Path
) -> None:
    files = ["--py-files", str(zipped(tmp_path)), *python_of_nodes(sys.executable)]
    program = [str(PROGRAM), str(tmp_path)]
    done = submitted(*mode, *files, *program, environment=yarn.environment, folder=tmp_path)
    assert done.returncode == 0, done.stderr + yarn.output()
    outcome = Outcome(tmp_path)
    outcome.check()
    assert outcome.said["master"] == "yarn"
    assert "mainstay.zip" in outcome.said["package"]


def test_an_environment_from_an_archive_is_all_that_nodes_need(
    yarn: YarnCluster, tmp_path: Path
) -> None:
    pytest.importorskip("venv_pack", reason="venv-pack is not installed")
    archive = packed_environment(tmp_path)
    inside = "environment/lib/"
    files = [f"--archives={archive}#environment", *python_of_nodes("./environment/bin/python")]
    program = [str(PROGRAM), str(tmp_path)]
    done = submitted(*CLUSTER, *files, *program, environment=yarn.environment, folder=tmp_path)
    assert done.returncode == 0, done.stderr + yarn.output()
    outcome = Outcome(tmp_path)
    outcome.check()
    assert inside in outcome.said["package"]
    assert all(inside in place for place in outcome.arrows())

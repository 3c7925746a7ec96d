"""The same program by ``mainstay run`` on Spark, and by ``spark-submit``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pyspark
import pytest

from mainstay.registry.folder import read_entries
from tests.control.running import PATIENCE_S, PROGRAM, Shell, await_true

pytestmark = pytest.mark.spark
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    shell.environment["PYSPARK_PYTHON"] = sys.executable
    return shell


def test_a_program_without_spark_runs_on_the_master_of_the_command_line(shell: Shell) -> None:
    options = ["--master", "local[3]", "--name", "mine"]
    command = [sys.executable, "-m", "mainstay.cli", "run", str(PROGRAM), *options]
    with shell.process([*command, "--", "place", "counting"]) as process:
        await_true(lambda: read_entries(shell.registry), "it has noted itself")
        await_true(lambda: shell.job("mine")["epoch"], "it has an epoch")
        done = shell.mainstay("stop", "mine")
        assert done.returncode == 0, done.stderr
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
        assert "from the command line: master='local[3]', name='mine'" in errors


@pytest.mark.soak  # as one that `mainstay run` starts, but for the one who starts it
def test_a_program_that_is_submitted_is_listed_and_stopped_by_its_name(shell: Shell) -> None:
    program = shell.folder / "job.py"
    text = PROGRAM.read_text().replace('"spark": "embedded", ', "")
    program.write_text(text)
    command = [str(SUBMIT), "--master", "local[4]", str(program), "place", "counting"]
    with shell.process(command) as process:
        await_true(lambda: read_entries(shell.registry), "it has noted itself")
        await_true(lambda: shell.job("counting")["epoch"], "it has an epoch")
        done = shell.mainstay("stop", "counting")
        assert done.returncode == 0, done.stderr
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
    assert shell.entries() == []


def test_a_driver_that_was_killed_is_gone(shell: Shell) -> None:
    command = [sys.executable, "-m", "mainstay.cli", "run", str(PROGRAM), "--master", "local[4]"]
    with shell.process([*command, "--", "place", "counting"]) as process:
        await_true(lambda: read_entries(shell.registry), "it has noted itself")
        await_true(lambda: shell.job("counting")["epoch"], "it has an epoch")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        found = shell.job("counting")
        assert found["status"] == "gone"
        assert found["epoch"] >= 1

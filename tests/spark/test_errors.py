"""What a terminal shows of errors in a job on a local session of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("own_session.py")


def run(directory: Path, how: str) -> str:
    """The program's standard error; it ends with an exception."""
    command = [sys.executable, str(PROGRAM), str(directory), how]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stderr
    return ended.stderr


def test_the_author_s_own_traceback_comes_last_and_java_s_not_at_all(tmp_path: Path) -> None:
    told = run(tmp_path, "raise")
    assert "job 'own': attempt 1 failed: operator 'function', subtask" in told
    assert "attempt 2 begins in 0.1 s, from " in told
    assert told.rstrip().endswith("LookupError: no such order")
    assert told.count("raise self.error") == 2
    assert "\tat org.apache.spark" not in told
    assert "mainstay/runtime" not in told


@pytest.mark.soak  # the drive of processes has the same, and needs no JVM
def test_an_interrupt_that_a_function_raises_names_its_operator_and_line(tmp_path: Path) -> None:
    told = run(tmp_path, "interrupt")
    assert "job 'own': attempt 1 failed: operator 'function', subtask" in told
    assert 'own_session.py", line ' in told
    assert told.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.soak  # a JVM that dies is told in the same words
def test_a_session_that_is_stopped_under_a_job_is_named_and_spark_says_nothing_at_its_start(
    tmp_path: Path,
) -> None:
    told = run(tmp_path, "stop")
    assert "log4j" not in told
    assert "NativeCodeLoader" not in told
    assert "WARN Utils" not in told
    assert "the Spark session was stopped, or its JVM died, under job 'own'" in told
    assert "before spark.stop()" in told
    assert "restore='latest'" in told
    assert "the drive of job" not in told


def test_a_jvm_that_dies_under_a_job_is_named_with_its_remedy(tmp_path: Path) -> None:
    told = run(tmp_path, "kill")
    assert "the Spark session was stopped, or its JVM died, under job 'own'" in told
    assert "If the JVM, or the Connect server, died: see what ended it" in told
    assert "restore='latest'" in told

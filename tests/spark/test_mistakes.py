"""Some mistakes of the table on Spark, where their messages come from other processes."""

from __future__ import annotations

import logging
import os
import runpy
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Sequence, read_committed
from mainstay.errors import MainstayError, SlotsError
from tests.drive.ledger import PATIENCE_S, await_attempt
from tests.mistakes import programs
from tests.mistakes.running import pattern_of
from tests.mistakes.table import ALL, Mistake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = (
    "an exception in process",
    "an exception in open",
    "a value of another type",
    "a wrong input path",
)
MISTAKES = [mistake for mistake in ALL if mistake.name in NAMES]


def run(program: str, directory: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    path = directory / "program.py"
    on_spark = 'spark=session, restart=ms.Restart(max_failures=1, backoff="100ms")'
    path.write_text(program.replace('spark="embedded"', on_spark))
    runpy.run_path(str(path), init_globals={"session": spark}, run_name="__main__")


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.id)
def test_a_mistake_on_spark_says_the_same_and_loses_nothing_once_it_is_mended(
    mistake: Mistake, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MainstayError) as raised:
        run(mistake.wrong(mistake.program), tmp_path, spark, monkeypatch)
    assert pattern_of(mistake.says).search(str(raised.value)), str(raised.value)
    assert "mainstay/runtime" not in str(raised.value)
    run(mistake.program, tmp_path, spark, monkeypatch)
    assert read_committed(tmp_path / "counts").num_rows == programs.ORDERS


def test_too_few_slots_are_counted_and_what_gives_more_is_named(
    tmp_path: Path, spark: SparkSession
) -> None:
    env = ms.Environment(spark=spark, parallelism=50, snapshots=ms.Snapshots(tmp_path))
    env.source(Sequence(end=10), uid="numbers").sink(Memory(), uid="out")
    with pytest.raises(SlotsError, match=r"needs 50 free slots .* Lower the parallelism"):
        env.start("wide").wait(PATIENCE_S)


def test_a_killed_worker_is_the_reason_and_not_what_its_survivors_say(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mainstay")
    env = ms.Environment(spark=spark, snapshots=ms.Snapshots(tmp_path, every="200ms"))
    env.source(Sequence(rows_per_second=500), uid="numbers").sink(Memory(), uid="out")
    job: Any = env.start("killed")
    os.kill(await_attempt(job, 1, 2)[1], signal.SIGKILL)
    await_attempt(job, 2, 2)
    job.stop(timeout=PATIENCE_S)
    (line,) = [message for message in caplog.messages if "attempt 1 failed" in message]
    assert "Python worker exited unexpectedly" in line
    assert "attempt 2 begins in" in line

"""Sessions that Spark itself does not start, told in words that say what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.errors import SparkSetupError

pytest.importorskip("pyspark")

pytestmark = pytest.mark.spark

PROGRAM = """
import mainstay as ms

env = ms.Environment(snapshots=ms.Snapshots("snapshots"))
env.source(ms.connectors.Sequence(end=3), uid="ids").sink(ms.connectors.Memory(), uid="out")
env.start("ids")
"""


def test_a_setting_that_spark_refuses_is_told_in_its_words_without_the_stack_of_java(
    tmp_path: Path,
) -> None:
    file = tmp_path / "job.py"
    file.write_text(PROGRAM)
    settings = {"PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=400m pyspark-shell"}
    environment = {name: value for name, value in os.environ.items() if "MAINSTAY_" not in name}
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env={**environment, **settings},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    told = done.stderr[done.stderr.rindex("Traceback") :]
    assert "SparkSetupError: Spark gives no session: [INVALID_EXECUTOR_MEMORY" in told
    assert "\tat " not in told
    assert "py4j" not in told.lower()
    assert "/mainstay/" not in told, "no frames of this package"


@pytest.mark.usefixtures("spark")
def test_a_session_of_connect_beside_a_classic_one_is_refused_with_what_to_stop() -> None:
    pytest.importorskip("grpc", reason="mainstay[connect] is not installed")
    from mainstay.spark.launch.connect_session import connect_session

    with pytest.raises(SparkSetupError) as raised:
        connect_session("sc://127.0.0.1:1")
    assert "beside the classic Spark session of this process" in str(raised.value)
    assert "Stop that one first, with session.stop()" in str(raised.value)
    assert "An address is written" not in str(raised.value)

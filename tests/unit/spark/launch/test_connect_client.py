"""A client of Spark Connect alone: PySpark without Java, py4j and a SparkContext."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

ABSENT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r} or name == "pyspark.core":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
MODULES = [
    "mainstay.spark.checkpoints.importing",
    "mainstay.spark.ingest.dataframes",
    "mainstay.spark.launch.connect_cluster",
    "mainstay.spark.launch.start",
    "mainstay.spark.processors.processor",
    "mainstay.spark.queries.transforming",
    "mainstay.spark.sources.source",
    "mainstay.spark.states.savepoint",
    "mainstay.spark.states.source",
]


def output_of(program: str, absent: set[str]) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", ABSENT.format(absent=absent) + program],
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_everything_that_connect_can_do_is_imported_without_py4j() -> None:
    program = f"""
from importlib import import_module
for name in {MODULES!r}:
    import_module(name)
from mainstay.spark.launch.session import is_spark_running
from mainstay.spark.states.source import StateDataSource
print(is_spark_running(), StateDataSource.name(), "py4j" in sys.modules)
"""
    assert output_of(program, {"py4j"}).split() == ["False", "mainstay", "False"]


def test_a_client_without_grpc_is_told_which_extra_to_install() -> None:
    program = """
from mainstay.errors import SparkSetupError
from mainstay.spark.launch.connect_session import connect_session
try:
    connect_session("sc://localhost:1/;token=abcdefgh")
except SparkSetupError as error:
    print(error)
"""
    message = output_of(program, {"py4j", "grpc"})
    assert "Install it with pip install 'mainstay[connect]'" in message

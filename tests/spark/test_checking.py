"""``mainstay check`` where a session runs already, as in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mainstay.spark.checking.check import check_file

PROCESSOR = """
from pyspark import SparkContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

spark = {session}

class Counts(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timerValues):
        yield Row(n=1)

class Depends(StatefulProcessor):
    schema = spark.range(1).schema

spark.readStream.json("no such folder")
"""


@pytest.mark.parametrize(
    "session",
    [
        "SparkSession.builder.getOrCreate()",
        'SparkSession.builder.appName("mine").getOrCreate()',
        'SparkSession.builder.remote("sc://localhost").create()',
        "SparkSession.getActiveSession()",
        "SparkSession.active()",
        "SparkSession(SparkContext.getOrCreate())",
    ],
)
def test_a_session_that_runs_is_not_the_one_of_the_file(
    spark: SparkSession, tmp_path: Path, session: str
) -> None:
    file = tmp_path / "processors.py"
    file.write_text(PROCESSOR.format(session=session))
    found = check_file(file)
    assert [(each.name, each.is_seen) for each in found.functions] == [
        ("Counts", True),
        ("Depends", False),
    ]
    assert SparkSession.active() is spark

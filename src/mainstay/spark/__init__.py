"""Mainstay on Spark: workers as barrier tasks of a Spark job, and states as DataFrames.

Only this package needs PySpark, and only what is used of it: names are loaded when they are asked
for, so that ``import mainstay`` works without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainstay.errors import SparkSetupError

if TYPE_CHECKING:
    from mainstay.spark.data_source_source import pyspark_source
    from mainstay.spark.savepoint_from_dataframes import rebucket, write_savepoint
    from mainstay.spark.state_source import StateDataSource, read_state
    from mainstay.spark.stream_writer_sink import pyspark_sink

__all__ = [
    "StateDataSource",
    "pyspark_sink",
    "pyspark_source",
    "read_state",
    "rebucket",
    "write_savepoint",
]

_HOMES = {
    "StateDataSource": "mainstay.spark.state_source",
    "pyspark_sink": "mainstay.spark.stream_writer_sink",
    "pyspark_source": "mainstay.spark.data_source_source",
    "read_state": "mainstay.spark.state_source",
    "rebucket": "mainstay.spark.savepoint_from_dataframes",
    "write_savepoint": "mainstay.spark.savepoint_from_dataframes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyspark":
            raise
        raise SparkSetupError(
            f"mainstay.spark.{name} needs PySpark, which is not installed. Install it with "
            "pip install 'mainstay[spark]'."
        ) from error

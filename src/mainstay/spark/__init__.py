"""Mainstay on Spark: workers as barrier tasks of a Spark job, and states as DataFrames.

Only this package needs PySpark, and only what is used of it: names are loaded when they are asked
for, so that ``import mainstay`` works without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainstay.errors import SparkSetupError

if TYPE_CHECKING:
    from mainstay.spark.sources.source import pyspark_source
    from mainstay.spark.sources.writer_sink import pyspark_sink
    from mainstay.spark.states.savepoint import rebucket, write_savepoint
    from mainstay.spark.states.source import StateDataSource, read_state

__all__ = [
    "StateDataSource",
    "pyspark_sink",
    "pyspark_source",
    "read_state",
    "rebucket",
    "write_savepoint",
]

_HOMES = {
    "StateDataSource": "mainstay.spark.states.source",
    "pyspark_sink": "mainstay.spark.sources.writer_sink",
    "pyspark_source": "mainstay.spark.sources.source",
    "read_state": "mainstay.spark.states.source",
    "rebucket": "mainstay.spark.states.savepoint",
    "write_savepoint": "mainstay.spark.states.savepoint",
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

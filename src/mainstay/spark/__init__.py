"""Mainstay on Spark: workers as barrier tasks of a Spark job, and states as DataFrames.

Only this package needs PySpark, and only what is used of it: names are loaded when they are asked
for, so that ``import mainstay`` works without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainstay.errors import SparkSetupError
from mainstay.spark.oldest_pyspark import require_pyspark

if TYPE_CHECKING:
    from mainstay.spark.checkpoints.importing import import_checkpoint
    from mainstay.spark.checkpoints.report import ImportedCheckpoint
    from mainstay.spark.queries.query import StatefulQuery
    from mainstay.spark.queries.transforming import (
        apply_in_pandas_with_state,
        transform_with_state,
        transform_with_state_in_pandas,
    )
    from mainstay.spark.sources.source import pyspark_source
    from mainstay.spark.sources.writer_sink import pyspark_sink
    from mainstay.spark.states.savepoint import rebucket, write_savepoint
    from mainstay.spark.states.source import StateDataSource, read_state

__all__ = [
    "ImportedCheckpoint",
    "StateDataSource",
    "StatefulQuery",
    "apply_in_pandas_with_state",
    "import_checkpoint",
    "pyspark_sink",
    "pyspark_source",
    "read_state",
    "rebucket",
    "transform_with_state",
    "transform_with_state_in_pandas",
    "write_savepoint",
]

_HOMES = {
    "ImportedCheckpoint": "mainstay.spark.checkpoints.report",
    "StateDataSource": "mainstay.spark.states.source",
    "StatefulQuery": "mainstay.spark.queries.query",
    "apply_in_pandas_with_state": "mainstay.spark.queries.transforming",
    "import_checkpoint": "mainstay.spark.checkpoints.importing",
    "pyspark_sink": "mainstay.spark.sources.writer_sink",
    "pyspark_source": "mainstay.spark.sources.source",
    "read_state": "mainstay.spark.states.source",
    "rebucket": "mainstay.spark.states.savepoint",
    "transform_with_state": "mainstay.spark.queries.transforming",
    "transform_with_state_in_pandas": "mainstay.spark.queries.transforming",
    "write_savepoint": "mainstay.spark.states.savepoint",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        require_pyspark()
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyspark":
            raise
        raise SparkSetupError(
            f"mainstay.spark.{name} needs PySpark, which is not installed. Install it with "
            "pip install 'mainstay[spark]'."
        ) from error

"""The process from which Spark forks Python workers, with what they need imported beforehand.

With ``spark.python.daemon.module=mainstay.spark.launch.daemon`` Spark starts this one instead of
its own, which imports nothing: there every worker of every attempt imports Arrow, pandas and
Mainstay for itself, and that is most of the time a restart takes.

A process should have one thread when it forks: an allocator that Arrow brings along has one more,
unless ``JE_ARROW_MALLOC_CONF=background_thread:false`` is in the environment. And no module may
give all children the same random numbers.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from importlib.util import find_spec

from pyspark.daemon import manager

PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.parquet",
    # Arrow imports it with the first conversion to numpy, if it is there.
    "pandas",
    "mainstay.drive.remote_worker",
    "mainstay.spark.launch.launcher",
    "mainstay.spark.ingest.sink",
)


def preload() -> None:
    """Import what workers import. What is not installed here is left out."""
    for name in PRELOADED:
        if find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)


def settle() -> None:
    """Leave children nothing to do about what was imported here."""
    os.register_at_fork(after_in_child=_draw_anew)
    # A worker begins by invalidating all importers, and those of pyspark.zip then read it again,
    # once for every package in it. Without them new ones are made where they are needed.
    sys.path_importer_cache.clear()
    # The collector of a child would walk everything that is here, and copy its pages by that.
    gc.collect()
    gc.freeze()


def _draw_anew() -> None:
    """Children would all go on from the parent's state; Python's own module sees to itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


if __name__ == "__main__":
    preload()
    settle()
    manager()

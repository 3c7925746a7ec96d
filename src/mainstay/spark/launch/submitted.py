"""Programs that ``spark-submit`` runs: their JVM is there before they are, with its settings."""

from __future__ import annotations

import os
from typing import Any

_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Where the JVM listens that has started this process."""
UNSAID = "local[*]"
"""The master of a program that was submitted without one."""


def is_submitted() -> bool:
    """Whether this process was started by a JVM of Spark, and not the other way round."""
    return _GATEWAY in os.environ


def submitted_master() -> str | None:
    """The master that spark-submit was told; None where there is none to go by."""
    if not is_submitted():
        return None
    master: str = _settings().get("spark.master", UNSAID)
    return None if master == UNSAID else master


def _settings() -> Any:
    from pyspark import SparkConf, SparkContext

    # Connects to the JVM, which alone knows them; no application is started.
    SparkContext._ensure_initialized()
    return SparkConf()

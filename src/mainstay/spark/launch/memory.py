"""The memory that Spark allows Python: divided among the slots of an executor, and enforced."""

from __future__ import annotations

import re

from mainstay.errors import SparkSetupError

PYTHON_MEMORY = "spark.executor.pyspark.memory"
LEAST_MEMORY_MIB = 256
"""Memory a worker needs before it holds any state: the interpreter, Arrow and the storage."""
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "p": 1024**3}


def require_memory(setting: str, slots_each: int) -> None:
    """Refuse a share of ``PYTHON_MEMORY`` that no worker can live with."""
    share = mebibytes(setting) // slots_each
    if share < LEAST_MEMORY_MIB:
        raise SparkSetupError(
            f"{PYTHON_MEMORY} is {setting}, which Spark divides among the {slots_each} slots of an "
            f"executor: {share} MiB for each worker, which needs at least {LEAST_MEMORY_MIB} MiB. "
            f"Raise it to {slots_each * LEAST_MEMORY_MIB}m, or lower the cores of an executor."
        )


def mebibytes(setting: str) -> int:
    """A size as Spark writes it, such as 2g or 512m; a bare number is in mebibytes."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", setting.strip().lower())
    if match is None:
        raise SparkSetupError(f"{setting!r} is not a size. Write it as 512m or 2g.")
    number, unit = match.groups()
    return int(int(number) * _UNITS[unit or "m"])

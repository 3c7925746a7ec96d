"""Masters of Spark, as they are written."""

from __future__ import annotations


def is_local_master(master: str) -> bool:
    """Whether tasks run on this machine, in the JVM of the driver."""
    return master == "local" or master.startswith("local[")

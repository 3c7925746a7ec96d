"""What may be said for ``spark=``: where a job runs."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from mainstay.errors import GraphError

EMBEDDED = "embedded"
"""In the place of a Spark session: run the job in this process, without Spark."""
CONNECT = "sc://"
"""Begins the address of a Spark Connect server, in the place of a session."""
_MASTER = re.compile(r"local$|local\[|yarn$|spark://|k8s://")


def is_embedded(spark: Any) -> bool:
    return isinstance(spark, str) and spark == EMBEDDED


def checked_spark(spark: Any) -> Any:
    """A session has more to it than this, but nothing else has this; ``start`` checks the rest."""
    if spark is None or is_embedded(spark):
        return spark
    if not isinstance(spark, str) and hasattr(spark, "createDataFrame"):
        return spark
    if isinstance(spark, str) and spark.startswith(CONNECT):
        return spark
    raise GraphError(
        f"spark={spark!r} must be {EMBEDDED!r}, a SparkSession, the address of a Spark Connect "
        "server such as 'sc://host:15002', or None, for a local session of the job's own."
        f"{_what_was_meant(spark)}"
    )


def _what_was_meant(spark: Any) -> str:
    if not isinstance(spark, str):
        return ""
    if _MASTER.match(spark):
        return (
            " This is a master. Leave spark= out and run the program with mainstay run "
            f"PROGRAM.py --master {spark}, or give the session of it: "
            f"spark=SparkSession.builder.master({spark!r}).getOrCreate()."
        )
    near = get_close_matches(spark.lower(), [EMBEDDED], cutoff=0.5)
    return f" Did you mean spark={EMBEDDED!r}?" if near else ""

"""The oldest PySpark that jobs run with; what is older lacks parts that are imported here."""

from __future__ import annotations

import re

from mainstay.errors import SparkSetupError

OLDEST = (4, 1)


def require_pyspark() -> None:
    """Refuse a PySpark that is too old, before a name that it lacks does.

    Where there is none, the caller says what it is needed for: ``ModuleNotFoundError``.
    """
    import pyspark

    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise SparkSetupError(
            f"Mainstay needs PySpark {oldest} or newer, and PySpark {pyspark.__version__} is "
            f"installed. Install a newer one: pip install 'pyspark>={oldest}'; a cluster must have "
            'the same version. Without Spark a job runs with Environment(spark="embedded").'
        )

"""Settings of Spark that a job cannot live with: they kill or move tasks that run for long."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.errors import SparkSetupError

Setting = Callable[[str, str], str | None]
KILLING = (
    "spark.python.worker.killOnIdleTimeout",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout",
)


def require_settings(setting: Setting) -> None:
    """Refuse settings that end or prevent quiet workers, by their names."""
    if setting("spark.dynamicAllocation.enabled", "false") == "true":
        raise SparkSetupError(
            "spark.dynamicAllocation.enabled is true: Spark runs no barrier stage with it. Set it "
            "to false for this application."
        )
    for name in KILLING:
        if setting(name, "false") == "true":
            raise SparkSetupError(f"{name} is true: Spark would kill quiet workers. Unset it.")

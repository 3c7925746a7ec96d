"""What Spark's configuration says about values: the time zone, and how long a DataFrame may be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import SparkSession

from mainstay.spark.launch.spark_errors import SPARK_ERRORS

_ROWS, _BYTES = 10_000, -1
"""Spark's own defaults for the rows of a DataFrame, and for its bytes: no limit."""

_UNKNOWN: tuple[type[Exception], ...] = (AttributeError, *SPARK_ERRORS)


@dataclass(frozen=True, slots=True)
class ValueSettings:
    """Settings that are looked up when a graph is built, and hold on every worker."""

    zone_name: str = "UTC"
    rows_per_frame: int = _ROWS
    """How many rows a DataFrame has at most; no limit where it is less than one."""
    bytes_per_frame: int = _BYTES
    """How many bytes its rows have at most, by the mean of the slice that they are of; the same."""

    def rows_of(self, rows: int, size_bytes: int) -> int:
        """How many of so many rows, of so many bytes together, go into a DataFrame."""
        most = self.rows_per_frame if self.rows_per_frame > 0 else rows
        if self.bytes_per_frame > 0 and size_bytes:
            most = min(most, self.bytes_per_frame * rows // size_bytes)
        return max(most, 1)

    @property
    def zone(self) -> tzinfo:
        """The zone of datetimes without one."""
        return timezone.utc if self.is_utc else ZoneInfo(self.zone_name)

    @property
    def is_utc(self) -> bool:
        return self.zone_name in ("UTC", "Etc/UTC", "GMT", "Z")


def current_settings() -> ValueSettings:
    """Those of the active Spark session; UTC and Spark's defaults where there is none."""
    session = SparkSession.getActiveSession()
    if session is None:
        return ValueSettings()
    conf: Any = session.conf
    zone = str(conf.get("spark.sql.session.timeZone"))
    rows = conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", str(_ROWS))
    return ValueSettings(zone, int(rows), _bytes_per_frame(session))


def _bytes_per_frame(session: Any) -> int:
    """The limit in bytes, which may be written with a unit, as ``64m``: Spark reads it."""
    try:
        return int(session._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch())
    except _UNKNOWN:
        return _BYTES  # a session of Connect, or a Spark that has no such setting

"""The event time of a DataFrame: what ``withWatermark`` has said of it.

Spark keeps the delay with the column itself, through selections and new names, and goes by that.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import TimestampType

from mainstay.api.watermark import Watermark
from mainstay.errors import GraphError
from mainstay.spelling import one_of

_DELAY_MS = "spark.watermarkDelayMs"


def watermark_of(df: Any, given: Watermark | None, where: str, *, needed: bool) -> Watermark | None:
    """The watermark of a query: the given one, or that of its DataFrame.

    Where none is ``needed`` and the DataFrame's does not serve, there is none.
    """
    if given is not None:
        return given
    found = _told(df) if df.isStreaming else _of_a_table(df)
    if not needed:
        return found[0] if df.isStreaming and len(found) == 1 else None
    if len(found) == 1:
        return found[0]
    raise GraphError(f"{where} goes by event time, and {_why(df, found)}")


def _told(df: Any) -> list[Watermark]:
    return [
        Watermark(field.name, delay=f"{field.metadata[_DELAY_MS]}ms")
        for field in df.schema
        if _DELAY_MS in field.metadata and isinstance(field.dataType, TimestampType)
    ]


def _of_a_table(df: Any) -> list[Watermark]:
    """Spark drops the watermark of a batch DataFrame, of which nothing is late: any column does."""
    return [Watermark(name) for name in _timestamps(df)[:1]]


def _timestamps(df: Any) -> list[str]:
    return [field.name for field in df.schema if isinstance(field.dataType, TimestampType)]


def _why(df: Any, found: list[Watermark]) -> str:
    times = _timestamps(df)
    if found:
        choices = one_of([each.column for each in found])
        return (
            f"its DataFrame has several watermarks. Say which counts: watermark=ms.Watermark("
            f'{choices}, delay="...").'
        )
    if any(_DELAY_MS in field.metadata for field in df.schema):
        return (
            "the watermark of its DataFrame is on a window. Say which timestamp counts: add a "
            'column with it, and watermark=ms.Watermark("at", delay="10s").'
        )
    if not times:
        return "its DataFrame has no timestamp. Add a column with the time of an event."
    return (
        "its DataFrame has no watermark, so it would wait for ever. Say "
        f'df.withWatermark({one_of(times)}, "10 seconds") before groupBy(...).'
    )

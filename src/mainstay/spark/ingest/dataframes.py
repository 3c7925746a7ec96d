"""A DataFrame that enters a job: what ``from_dataframe`` remembers until the job starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainstay.api.watermark import Watermark
from mainstay.connectors.ingest.laned_source import LANES, LanedIngestSource
from mainstay.connectors.ingest.source import IngestSource
from mainstay.errors import GraphError, SchemaError
from mainstay.schema import to_schema
from mainstay.snapshot.storage import shared


@dataclass(frozen=True, slots=True, eq=False)
class Ingest:
    """A DataFrame and the source that reads what Spark writes of it."""

    df: Any
    source: IngestSource
    allow_changed_query: bool = False
    time_column: int | None = None
    """The column whose newest time is noted with each micro-batch, where somebody goes by it."""
    available_now: bool = False
    """Whether a streaming one is read only as far as it goes when the job starts."""

    @property
    def uid(self) -> str:
        return self.source.uid

    @property
    def is_streaming(self) -> bool:
        return not self.source.bounded


def ingest_of(
    df: Any,
    uid: str,
    directory: str | None,
    *,
    watermark: Watermark | None = None,
    in_order: bool = False,
    available_now: bool = False,
    allow_changed_query: bool = False,
) -> Ingest:
    """The ingest of a DataFrame into the job whose snapshots are in ``directory``."""
    if not hasattr(df, "isStreaming") or not hasattr(df, "schema"):
        raise GraphError(
            f"from_dataframe(uid={uid!r}) needs a DataFrame of Spark, not {type(df).__name__}."
        )
    try:
        schema = to_schema(df.schema)
    except SchemaError as error:
        raise GraphError(
            f"the DataFrame of {uid!r} cannot enter a job: {error}. Cast the column with "
            "df.withColumn(...) first."
        ) from error
    if available_now and not df.isStreaming:
        raise GraphError(
            f"from_dataframe(uid={uid!r}): available_now=True is for a streaming DataFrame, and "
            "this is a batch one, which has an end anyway. Leave it out."
        )
    location = None if directory is None else shared(directory)
    time = None if watermark is None else watermark.spec(schema, f"from_dataframe(uid={uid!r})")
    if not df.isStreaming or (time is None and not in_order):
        source = IngestSource(location, uid, schema, bounded=not df.isStreaming)
        return Ingest(df, source, allow_changed_query, available_now=available_now)
    lanes = 1 if in_order else LANES
    delay_us = 0 if time is None else time.delay_us
    source = LanedIngestSource(location, uid, schema, lanes=lanes, delay_us=delay_us)
    time_column = None if time is None else time.column
    return Ingest(df, source, allow_changed_query, time_column, available_now)

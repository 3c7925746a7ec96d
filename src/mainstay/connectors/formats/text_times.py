"""Timestamps as texts: with a zone, or without one and then in UTC."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.schema.types import TIMESTAMP

# A time of day, then Z or an offset. A bare date ends in digits after a minus sign as well.
_ZONED = r":\d{2}(\.\d+)?\s*(Z|[+-]\d{2}(:?\d{2})?)$"


_SHORTEST_ZONED = len("2024-01-01T00:00Z")


def timestamps_of(texts: pa.Array) -> pa.Array:
    """Texts with and without a zone; those without are UTC. Most often all are alike."""
    with suppress(pa.ArrowInvalid):
        if _are_all_utc(texts):
            return texts.cast(TIMESTAMP)
        return texts.cast(pa.timestamp("us")).cast(TIMESTAMP)
    return mixed_timestamps_of(texts)


def _are_all_utc(texts: pa.Array) -> bool:
    """Whether all end as UTC does, behind minutes: Arrow would take ``00Z`` for hours as well."""
    if pc.all(pc.ends_with(texts, "Z")).as_py() is not True:
        return False
    return pc.min(pc.binary_length(texts)).as_py() >= _SHORTEST_ZONED  # type: ignore[no-any-return]


def mixed_timestamps_of(texts: pa.Array) -> pa.Array:
    """Each text by itself."""
    nothing = pa.scalar(None, pa.string())
    is_zoned = pc.match_substring_regex(texts, _ZONED)
    zoned = pc.if_else(is_zoned, texts, nothing).cast(TIMESTAMP)
    plain = pc.if_else(is_zoned, nothing, texts).cast(pa.timestamp("us")).cast(TIMESTAMP)
    return pc.coalesce(zoned, plain)

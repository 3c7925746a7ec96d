"""Timestamps as texts: with a zone, or without one and then in UTC."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.schema.types import TIMESTAMP

# A time of day, then Z or an offset. A bare date ends in digits after a minus sign as well.
_ZONED = r":\d{2}(\.\d+)?\s*(Z|[+-]\d{2}(:?\d{2})?)$"


def timestamps_of(texts: pa.Array) -> pa.Array:
    """Texts with and without a zone; those without are UTC."""
    nothing = pa.scalar(None, pa.string())
    is_zoned = pc.match_substring_regex(texts, _ZONED)
    zoned = pc.if_else(is_zoned, texts, nothing).cast(TIMESTAMP)
    plain = pc.if_else(is_zoned, nothing, texts).cast(pa.timestamp("us")).cast(TIMESTAMP)
    return pc.coalesce(zoned, plain)

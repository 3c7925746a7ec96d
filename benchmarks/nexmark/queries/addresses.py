"""Queries of what is in the address of a bid."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs

KNOWN = pa.array(["apple", "google", "facebook", "baidu"])
"""Channels whose number is their place in this list."""

BID = ("auction", "bidder", "price", "channel")
CHANNEL_ID = r"(?:&|^)channel_id=(?P<id>[^&]*)"


def q21(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    known = pc.index_in(pc.utf8_lower(pc.field("channel")), KNOWN).cast(pa.string())
    found = pc.struct_field(pc.extract_regex(pc.field("url"), CHANNEL_ID), "id")
    numbered = inputs["bid"].select(*BID, channel_id=pc.coalesce(known, found))
    return numbered.filter(ms.col("channel_id").isNotNull())


def q22(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    # https: / (nothing) / host / first folder / second / third / page
    parts = pc.split_pattern(pc.field("url"), "/")
    folders = {f"dir{number}": pc.list_element(parts, number + 2) for number in (1, 2, 3)}
    return inputs["bid"].select(*BID, **folders)

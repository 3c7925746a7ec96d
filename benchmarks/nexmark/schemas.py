"""The columns of the three kinds of events, and of the side input.

``at`` is the time of the event. ``seq`` is its number among all events: it breaks ties between
events of the same time, and no query gives it out.
"""

from __future__ import annotations

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")

PERSON = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email", pa.string()),
        ("credit_card", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("at", TIMESTAMP),
        ("extra", pa.string()),
        ("seq", pa.int64()),
    ]
)
AUCTION = pa.schema(
    [
        ("id", pa.int64()),
        ("item_name", pa.string()),
        ("description", pa.string()),
        ("initial_bid", pa.int64()),
        ("reserve", pa.int64()),
        ("at", TIMESTAMP),
        ("expires", TIMESTAMP),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("extra", pa.string()),
        ("seq", pa.int64()),
    ]
)
BID = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("at", TIMESTAMP),
        ("extra", pa.string()),
        ("seq", pa.int64()),
    ]
)
SIDE = pa.schema([("key", pa.int64()), ("value", pa.string())])
"""The side input of q13."""

EVENTS = {"person": PERSON, "auction": AUCTION, "bid": BID}
INPUTS = {**EVENTS, "side": SIDE}


def projected(schema: pa.Schema, columns: tuple[str, ...] | None) -> pa.Schema:
    """The schema of the named columns, in the order of the schema; of all of them for None."""
    if columns is None:
        return schema
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise ValueError(f"there is no column {sorted(unknown)}; there are {schema.names}")
    return pa.schema([field for field in schema if field.name in columns])

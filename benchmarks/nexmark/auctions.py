"""The columns of auctions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.nexmark.chunk import (
    FIRST_ID,
    HOT_EVERY,
    Chunk,
    below,
    hot_or_not,
    prices,
    times,
)
from benchmarks.nexmark.texts import lengths_of, padding, short_texts
from benchmarks.nexmark.timeline import CYCLE, Integers

_HOT_SELLERS = 4
_CATEGORIES, _FIRST_CATEGORY = 5, 10
_LIFE_TICKS = 100 * CYCLE // 3
"""Half of the longest life of an auction: the time in which a hundred others begin."""

_AVERAGE_BYTES = 500
_NUMBER_BYTES = 6 * 8


def item_name(chunk: Chunk) -> pa.Array:
    return short_texts(chunk.random("item_name"), len(chunk), 20)


def description(chunk: Chunk) -> pa.Array:
    return short_texts(chunk.random("description"), len(chunk), 100)


def initial_bids(chunk: Chunk) -> Integers:
    return prices(chunk.random("initial_bid"), len(chunk))


def reserve(chunk: Chunk) -> pa.Array:
    above = prices(chunk.random("reserve"), len(chunk))
    return pa.array(initial_bids(chunk) + above)


def expires(chunk: Chunk) -> pa.Array:
    now = chunk.at_ms()
    half = chunk.timeline.at_ms(chunk.ticks + _LIFE_TICKS) - now
    return times(now + 1 + below(chunk.random("expires"), np.maximum(2 * half, 1)))


def seller(chunk: Chunk) -> pa.Array:
    random = chunk.random("seller")
    hot = chunk.cycles // HOT_EVERY * HOT_EVERY
    return pa.array(FIRST_ID + hot_or_not(random, _HOT_SELLERS, hot, chunk.some_persons(random)))


def category(chunk: Chunk) -> pa.Array:
    chosen = chunk.random("category").integers(0, _CATEGORIES, len(chunk))
    return pa.array(_FIRST_CATEGORY + chosen)


def extra(chunk: Chunk) -> pa.Array:
    sizes = _NUMBER_BYTES + lengths_of(item_name(chunk), description(chunk))
    return padding(chunk.random("extra"), chunk.vocabulary.pool, sizes, _AVERAGE_BYTES)


COLUMNS: dict[str, Callable[[Chunk], pa.Array]] = {
    "id": lambda chunk: pa.array(chunk.newest_auctions() + FIRST_ID),
    "item_name": item_name,
    "description": description,
    "initial_bid": lambda chunk: pa.array(initial_bids(chunk)),
    "reserve": reserve,
    "at": lambda chunk: times(chunk.at_ms()),
    "expires": expires,
    "seller": seller,
    "category": category,
    "extra": extra,
    "seq": lambda chunk: pa.array(chunk.ids),
}

"""The columns of bids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.nexmark.chunk import FIRST_ID, HOT_EVERY, Chunk, hot_or_not, prices, times
from benchmarks.nexmark.texts import padding
from benchmarks.nexmark.vocabulary import CHANNELS, HOT_CHANNELS

_HOT_AUCTIONS, _HOT_BIDDERS, _HOT_CHANNELS = 2, 4, 2
_AVERAGE_BYTES = 100
_NUMBER_BYTES = 4 * 8


def auction(chunk: Chunk) -> pa.Array:
    random = chunk.random("auction")
    hot = chunk.newest_auctions() // HOT_EVERY * HOT_EVERY
    return pa.array(FIRST_ID + hot_or_not(random, _HOT_AUCTIONS, hot, chunk.some_auctions(random)))


def bidder(chunk: Chunk) -> pa.Array:
    random = chunk.random("bidder")
    hot = chunk.cycles // HOT_EVERY * HOT_EVERY + 1
    return pa.array(FIRST_ID + hot_or_not(random, _HOT_BIDDERS, hot, chunk.some_persons(random)))


def _channels(chunk: Chunk) -> pa.Array:
    """The place of each bid's channel in the vocabulary."""
    random, count = chunk.random("channel"), len(chunk)
    hot = random.integers(0, len(HOT_CHANNELS), count)
    other = len(HOT_CHANNELS) + random.integers(0, CHANNELS, count)
    return pa.array(hot_or_not(random, _HOT_CHANNELS, hot, other))


def extra(chunk: Chunk) -> pa.Array:
    sizes = np.full(len(chunk), _NUMBER_BYTES)
    return padding(chunk.random("extra"), chunk.vocabulary.pool, sizes, _AVERAGE_BYTES)


COLUMNS: dict[str, Callable[[Chunk], pa.Array]] = {
    "auction": auction,
    "bidder": bidder,
    "price": lambda chunk: pa.array(prices(chunk.random("price"), len(chunk))),
    "channel": lambda chunk: chunk.vocabulary.channels.take(_channels(chunk)),
    "url": lambda chunk: chunk.vocabulary.urls.take(_channels(chunk)),
    "at": lambda chunk: times(chunk.at_ms()),
    "extra": extra,
    "seq": lambda chunk: pa.array(chunk.ids),
}

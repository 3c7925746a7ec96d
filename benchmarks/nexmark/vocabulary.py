"""Words that all events of a seed share: channels with their addresses, and a pool of letters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.nexmark.texts import Letters, joined, letters, short_texts

HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
CHANNELS = 10_000
"""Channels that are not hot. Nine of ten have their number in their address."""

_POOL_BYTES = 1 << 20


class Vocabulary:
    """``channels`` and ``urls`` belong together; the hot channels are the first four."""

    def __init__(self, seed: int) -> None:
        # A chunk draws from [seed, chunk, column], so two numbers are nobody else's.
        random = np.random.default_rng([seed, 0])
        self.pool: Letters = letters(random, _POOL_BYTES)
        self.channels = pa.array([*HOT_CHANNELS, *(f"channel-{n}" for n in range(CHANNELS))])
        self.urls = joined("", _addresses(random), _channel_ids(random))


def _addresses(random: np.random.Generator) -> pa.StringArray:
    count = len(HOT_CHANNELS) + CHANNELS
    folders = [short_texts(random, count, 5, "_") for _ in range(3)]
    return joined("/", "https://www.nexmark.com", *folders, "item.htm?query=1")


def _channel_ids(random: np.random.Generator) -> pa.StringArray:
    has_id = random.integers(0, 10, CHANNELS) > 0
    ids = [f"&channel_id={_reversed(n)}" if has else "" for n, has in enumerate(has_id)]
    return pa.array([*("" for _ in HOT_CHANNELS), *ids])


def _reversed(number: int) -> int:
    """The number with its 32 bits in reverse, without its sign."""
    bits = int(f"{number:032b}"[::-1], 2)
    return abs(bits - (1 << 32) if bits >> 31 else bits)

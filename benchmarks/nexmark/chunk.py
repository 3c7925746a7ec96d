"""The events of one kind in one chunk, while their columns are made.

Each column draws its random numbers by itself, from the seed, the chunk and its own name. So a
chunk can be made alone and in any order, and a column is the same whether others are made or not.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.nexmark.schemas import TIMESTAMP
from benchmarks.nexmark.timeline import CHUNK_EVENTS, CYCLE, Integers, Layout, Timeline
from benchmarks.nexmark.vocabulary import Vocabulary

FIRST_ID = 1000
"""Ids of persons and auctions begin here."""

HOT_EVERY = 100
"""One person, or auction, of so many is hot for a while."""

_ACTIVE_PERSONS = 1000
_LEAD = 10
"""So many ids ahead of the newest may be named before they exist."""


class Chunk:
    """``ticks``, ``ids`` and ``cycles`` have an item for each event, by time."""

    def __init__(
        self,
        seed: int,
        number: int,
        kind: str,
        timeline: Timeline,
        layout: Layout,
        vocabulary: Vocabulary,
    ) -> None:
        self.seed, self.number, self.kind = seed, number, kind
        self.timeline, self.vocabulary = timeline, vocabulary
        self.ticks = layout.ticks + number * CHUNK_EVENTS
        self.ids = self.ticks + 1
        self.cycles = layout.cycles + number * (CHUNK_EVENTS // CYCLE)
        self.offsets = layout.offsets

    def __len__(self) -> int:
        return len(self.ticks)

    def random(self, purpose: str) -> np.random.Generator:
        """Random numbers of their own for a column, or a part of one."""
        name = zlib.crc32(f"{self.kind}.{purpose}".encode())
        return np.random.default_rng([self.seed, self.number, name])

    def at_ms(self) -> Integers:
        return self.timeline.at_ms(self.ticks)

    def newest_auctions(self) -> Integers:
        """The number of the newest auction at each event, itself included."""
        return self.cycles * 3 + np.minimum(self.offsets, 3) - 1

    def some_persons(self, random: np.random.Generator) -> Integers:
        """Any of the active persons, or one of the next few."""
        persons = self.cycles + 1
        active = np.minimum(persons, _ACTIVE_PERSONS)
        chosen: Integers = persons - active + below(random, active + _LEAD)
        return chosen

    def some_auctions(self, random: np.random.Generator) -> Integers:
        """Any of the last hundred auctions, or one of the next few."""
        newest = self.newest_auctions()
        oldest = np.maximum(newest - 100, 0)
        return oldest + below(random, newest - oldest + 1 + _LEAD)


def below(random: np.random.Generator, ends: Integers) -> Integers:
    """A whole number from 0 up to but not including each of the ends."""
    return (random.random(len(ends)) * ends).astype(np.int64)


def hot_or_not(
    random: np.random.Generator, one_in: int, hot: Integers, other: Integers
) -> Integers:
    """The other in one case of so many, the hot one in all others."""
    is_hot = random.integers(0, one_in, len(hot), dtype=np.uint8) > 0
    return np.where(is_hot, hot, other)


def prices(random: np.random.Generator, count: int) -> Integers:
    """From 100 to 100,000,000, as many between 1,000 and 10,000 as between any two powers."""
    return np.floor(10.0 ** (random.random(count) * 6) * 100 + 0.5).astype(np.int64)


def times(milliseconds: npt.NDArray[np.int64]) -> pa.TimestampArray:
    return pa.array(milliseconds * 1000).view(TIMESTAMP)

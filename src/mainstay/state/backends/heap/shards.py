"""Which of the dictionaries of a large table the keys of a column are in, for all of them at once.

A dictionary after the other is quicker to fill than all of them by turns: it stays in the
processor's cache meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.backends.heap.access import SHARDS
from mainstay.state.grouping import words_of
from mainstay.state.partials import objects
from mainstay.state.values import ValueType

Shards = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Divided:
    """Keys in the order of their shards; within one, in that of the column.

    ``order`` says where each was in the column, ``bounds`` where each shard begins.
    """

    keys: list[Any]
    order: pa.Array
    bounds: list[int]

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """The shards that have keys: their numbers, and from where to where these lie."""
        for shard, (first, after) in enumerate(zip(self.bounds, self.bounds[1:], strict=False)):
            if after > first:
                yield shard, first, after


def in_shards(key: ValueType, column: pa.Array) -> Divided:
    """The keys of a column, divided by ``hash(key) % SHARDS``."""
    if pa.types.is_integer(column.type) and not column.null_count:
        words = words_of(column)
        if len(words) and max(-int(words.min()), int(words.max())) < sys.hash_info.modulus:
            order, bounds = _divided(_shards_of_words(words))
            return Divided(words[order].tolist(), pa.array(order), bounds)
    keys = key.from_array(column)
    hashes = np.fromiter(map(hash, keys), np.int64, len(keys))
    order, bounds = _divided((hashes % SHARDS).astype(np.uint8))
    return Divided(objects(keys)[order].tolist(), pa.array(order), bounds)


def _shards_of_words(words: npt.NDArray[np.int64]) -> Shards:
    """Whole numbers that are not too large are their own hashes, but for one of them."""
    hashes = np.where(words == -1, hash(-1), words)
    return (hashes % SHARDS).astype(np.uint8)


def _divided(shards: Shards) -> tuple[npt.NDArray[np.intp], list[int]]:
    order = np.argsort(shards, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(shards, minlength=SHARDS))])
    return order, bounds.tolist()

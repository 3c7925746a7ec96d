"""How much memory rows take, from looks at single ones.

Segments that were encoded say it exactly, but only afterwards: until then a table may have taken
any number of bytes, and a job that only reads never encodes one.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

_LOOKED_AT = 64
"""How many items of a collection, and how many rows, an estimate rests on."""


class Looks:
    """The mean of what was seen lately."""

    def __init__(self) -> None:
        self.mean_bytes = 0.0
        self._count = 0

    def saw(self, size_bytes: int) -> None:
        self._count = min(self._count + 1, _LOOKED_AT)
        self.mean_bytes += (size_bytes - self.mean_bytes) / self._count


def held_bytes(kept: Any) -> int:
    """About what a kept value takes in memory; of a long collection some items are looked at."""
    if isinstance(kept, dict):
        return _of_items(kept, ((*item,) for item in kept.items()))
    if isinstance(kept, tuple | list):
        return _of_items(kept, kept[:: max(1, len(kept) // _LOOKED_AT)])
    return sys.getsizeof(kept, 0)


def _of_items(kept: Collection[Any], items: Iterable[Any]) -> int:
    sizes = [held_bytes(item) for item in islice(items, _LOOKED_AT)]
    return sum(sizes) * len(kept) // max(1, len(sizes))

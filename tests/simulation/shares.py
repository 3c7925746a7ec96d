"""How many seeds of which list the soak plays.

``MAINSTAY_SEEDS`` is how many there are of all lists together. ``MAINSTAY_FIRST_SEED`` is where
each list begins, so that another night plays others; the ordinary suite has the first of them. It
is heeded wherever the soak plays seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

SHARES = {
    "seeds": 100,
    "unaligned": 80,
    "loops": 45,
    "sides": 45,
    "key groups": 50,
    "started again": 40,
    "changed programs": 50,
    "timers": 45,
    "ended": 40,
    "connected": 35,
    "terms": 30,
    "rivals": 25,
    "room": 20,
    "queries": 10,
    "sink state": 15,
    "graphs": 80,
    "moving": 60,
    "misuse": 20,
    "histories": 65,
    "external stores": 5,
    "compiled functions": 30,
    "compiled jobs": 35,
    "compiled timers": 15,
    "compiled ledgers": 35,
    "unaligned compiled ledgers": 25,
}
"""Of a thousand seeds, those of each list. One whose seeds are dear, or search less, has fewer."""
CHUNK = 50
"""Seeds of one test."""
SEEDS = 1000
"""How many there are where nobody says."""


def soaked(name: str, after: int, told: Mapping[str, str] = os.environ) -> list[Any]:
    """Ranges of seeds, each for one test of the soak: those of a list from ``after`` on."""
    return [
        pytest.param(seeds, marks=pytest.mark.soak, id=f"{seeds.start}-{seeds.stop - 1}")
        for seeds in ranges(name, after, told)
    ]


def dealt(name: str, after: int, hands: list[Any]) -> list[Any]:
    """The same with something beside each range, in turn: a case that its seeds are played with."""
    found = list(ranges(name, after, os.environ, len(hands)))
    return [
        pytest.param(hands[n % len(hands)], seeds, marks=pytest.mark.soak)
        for n, seeds in enumerate(found)
    ]


def ranges(name: str, after: int, told: Mapping[str, str], hands: int = 1) -> Iterator[range]:
    """The seeds of a list in ranges: at least one for each of as many hands."""
    count = count_of(name, int(told.get("MAINSTAY_SEEDS", SEEDS)))
    first = beginning(after, told)
    chunk = max(1, min(CHUNK, count // hands))
    for start in range(first, first + count, chunk):
        yield range(start, min(start + chunk, first + count))


def count_of(name: str, seeds: int) -> int:
    """How many of as many seeds a list has. What is left of each share goes to a later list."""
    before = sum(SHARES[each] for each in list(SHARES)[: list(SHARES).index(name)])
    return seeds * (before + SHARES[name]) // 1000 - seeds * before // 1000


def beginning(after: int, told: Mapping[str, str] = os.environ) -> int:
    """Where a search begins that leaves the seeds before ``after`` to the suite."""
    return max(after, int(told.get("MAINSTAY_FIRST_SEED", 0)))

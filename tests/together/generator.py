"""The input: what row number ``n`` is, for a seed. Nothing else decides it.

Events go to Kafka, a key always to the same partition, so that the rows of a key come in order.
Moves go to files. Times are out of order by less than the watermark's delay: no row is ever late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

KEYS = 24
PARTITIONS = 2
START_US = int(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()) * 1_000_000
STEP_US = 50_000
MOST_EARLY_US = 800_000
"""How much further than its number a row's time may be."""
MOVES_PER_FILE = 40
KINDS = ("cash", "card", "note")


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the topic: an order or a payment, and which deal it belongs to."""

    n: int
    k: int
    kind: str
    deal: int
    amount: int
    at_us: int

    @property
    def partition(self) -> int:
        return self.k % PARTITIONS


@dataclass(frozen=True, slots=True)
class Move:
    """A row of a file."""

    n: int
    k: int
    kind: str
    amount: int


def _drawn(seed: int, what: str, n: int) -> int:
    digest = hashlib.blake2b(f"{seed} {what} {n}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def event(seed: int, n: int) -> Event:
    drawn = _drawn(seed, "event", n)
    return Event(
        n,
        k=drawn % KEYS,
        kind="order" if n % 4 < 2 else "payment",
        deal=n // 4,
        amount=(drawn >> 8) % 100,
        at_us=START_US + n * STEP_US + (drawn >> 16) % MOST_EARLY_US,
    )


def move(seed: int, n: int) -> Move:
    drawn = _drawn(seed, "move", n)
    return Move(n, drawn % KEYS, KINDS[(drawn >> 8) % len(KINDS)], (drawn >> 16) % 100)


def events(seed: int, count: int) -> Iterator[Event]:
    return (event(seed, n) for n in range(count))


def moves(seed: int, count: int) -> Iterator[Move]:
    return (move(seed, n) for n in range(count))

"""Judges answers to queries, each when it comes.

A committed one has exactly the rows up to the position of its epoch, and no client sees an epoch
before one that it has seen. A live one is a state that the job passes through: it does not go back
within an attempt, and it is never older than an epoch that its attempt has committed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.together.generator import PARTITIONS

MOST_LETTERS = 90
"""Of a refusal: what comes after that are mostly numbers."""


@dataclass(frozen=True, slots=True)
class Before:
    """What had been told of a key when it was asked about: nothing older may be the answer."""

    live: dict[int, int] = field(default_factory=dict)
    """The rows, by attempt."""
    committed: tuple[int, int] = (0, 0)
    """The attempt, and the rows."""


@dataclass(frozen=True, slots=True)
class Told:
    """One answer: how many rows of a key the job has counted, and the number of the last."""

    client: int
    incarnation: int
    level: str
    epoch: int
    attempt: int
    key: int
    seen: int
    last: int | None
    position: dict[str, int] = field(default_factory=dict)
    before: Before = Before()


@dataclass(frozen=True, slots=True)
class Legal:
    """What is known of the input: see ``Prefixes``."""

    produced: Callable[[int], int]
    last_of: Callable[[int, int], int | None]
    count_at: Callable[[int, int], int]


class AnswerBook:
    """Takes answers from several threads; ``differences`` are what is wrong with them."""

    def __init__(self, legal: Legal) -> None:
        self._legal = legal
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.differences: list[str] = []
        self.epochs: set[tuple[int, int]] = set()
        """The epochs that committed answers were of, by incarnation."""
        self.behind: set[tuple[int, int]] = set()
        """Those with fewer rows than their position says: the others are in flight."""
        self._newest: dict[int, tuple[int, int]] = {}
        self._live: dict[tuple[int, int], dict[int, int]] = {}
        self._committed: dict[tuple[int, int], tuple[int, int]] = {}

    def before(self, incarnation: int, key: int) -> Before:
        """To be asked for before the job is asked: answers may overtake each other."""
        with self._lock:
            of = (incarnation, key)
            return Before(dict(self._live.get(of, {})), self._committed.get(of, (0, 0)))

    def refuse(self, level: str, why: str) -> None:
        with self._lock:
            self.counts[f"{level}, refused"] += 1
            self.reasons[why[:MOST_LETTERS]] += 1

    def take(self, told: Told) -> None:
        with self._lock:
            self.counts[told.level] += 1
            self._check_value(told)
            if told.level == "committed":
                self._check_committed(told)
            else:
                self._check_live(told)

    def _wrong(self, told: Told, why: str) -> None:
        self.differences.append(f"{told}: {why}")

    def _check_value(self, told: Told) -> None:
        if told.seen > self._legal.produced(told.key):
            self._wrong(told, f"only {self._legal.produced(told.key)} rows were ever written")
        elif told.last is not None:
            expected = self._legal.last_of(told.key, told.seen)
            if told.last != expected:
                self._wrong(told, f"row {told.seen} of the key is number {expected}")

    def _check_committed(self, told: Told) -> None:
        at = (told.incarnation, told.epoch)
        self.epochs.add(at)
        if at < self._newest.get(told.client, (0, 0)):
            self._wrong(told, f"the client has seen {self._newest[told.client]} before")
        self._newest[told.client] = max(at, self._newest.get(told.client, (0, 0)))
        self._check_position(told)
        known = self._committed.get((told.incarnation, told.key), (0, 0))
        self._committed[told.incarnation, told.key] = max(known, (told.attempt, told.seen))

    def _check_position(self, told: Told) -> None:
        offset = told.position.get(f"events-{told.key % PARTITIONS}")
        if offset is None:
            return
        expected = self._legal.count_at(told.key, offset)
        if told.seen > expected:
            self._wrong(told, f"up to the position there are {expected} rows of the key")
        elif told.seen < expected:
            self.behind.add((told.incarnation, told.epoch))

    def _check_live(self, told: Told) -> None:
        before = told.before.live.get(told.attempt, 0)
        if told.seen < before:
            self._wrong(told, f"the attempt has told of {before} rows before")
        attempt, committed = told.before.committed
        if told.attempt >= attempt and told.seen < committed:
            self._wrong(told, f"attempt {attempt} has committed {committed} rows")
        known = self._live.setdefault((told.incarnation, told.key), {})
        known[told.attempt] = max(known.get(told.attempt, 0), told.seen)

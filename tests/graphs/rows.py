"""The rows of random graphs: what they hold, what they are keyed by, and how they are compared.

Every stream of a graph has the same schema, so that any operator may follow any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import mainstay as ms

ROW = "id long, k string, n long, x double, at timestamp"
NAMES = ("id", "k", "n", "x", "at")
Row = tuple[Any, ...]
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
DELAY_S = 5
"""Rows of a source are out of order by less than this."""
SPAN_S = 30
MODULUS = 1_000_003
"""Numbers that are made of others stay below this."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def time_of(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=us)


def drawn_rows(random: Random, count: int, first: int) -> list[Row]:
    """Rows whose times rise but for less than the delay: some are equal, some are missing."""
    times = sorted(random.randrange(SPAN_S * 4) / 4 for _ in range(count))
    times.sort(key=lambda time: time + random.uniform(0, DELAY_S - 0.5))
    return [
        (
            first + number,
            random.choice([None, "", "a", "b", "b", "c", "\u00e9", "d"]),
            random.choice([None, 0, 1, 2, 3, 7]),
            random.choice([None, math.nan, 0.0, -0.0, 0.5, 1.0, -2.5, math.inf]),
            None if random.random() < 0.04 else at(time),
        )
        for number, time in enumerate(times)
    ]


def plain(value: Any) -> Any:
    """A value that is equal where Mainstay says it is: NaN to NaN, and 0.0 to -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime):
        return f"{micros(value) - micros(START)}us"
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def counted(rows: Iterable[Any]) -> Counter[Any]:
    """Rows as a multiset."""
    return Counter(plain(tuple(row)) for row in rows)


def of_rows(values: Iterable[Any]) -> list[Any]:
    """Values in an order that does not depend on where they come from."""
    return sorted(map(plain, values), key=repr)


def text_of(key: Any) -> str:
    """A key as a text, for a column that any key fits into."""
    return repr(plain(tuple(key) if isinstance(key, tuple) else key))


# ---------------------------------------------------------------- keys


class Key:
    """Something to key a stream by, with the same as a function of a row."""

    def __init__(
        self, of: Callable[[Row], Any], *columns: str, how: Callable[[str], tuple[Any, ...]] = tuple
    ) -> None:
        self.of = of
        self.columns = columns
        self._how = how

    def __call__(self, stream: Any, before: str = "") -> Any:
        """The stream with this key; its columns have names that begin with ``before``."""
        if self.columns:
            return stream.key_by(*(f"{before}{column}" for column in self.columns))
        return stream.key_by(*self._how(before))


def _number(row: Any) -> Any:
    return row[0] % 4


def _pair(row: Any) -> Any:
    return row[1], row[2]


KEYS: dict[str, Key] = {
    "k": Key(lambda row: row[1], "k"),
    "n": Key(lambda row: row[2], "n"),
    "k,n": Key(lambda row: (row[1], row[2]), "k", "n"),
    "x": Key(lambda row: row[3], "x"),
    "at": Key(lambda row: row[4], "at"),
    "x,at,k": Key(lambda row: (row[3], row[4], row[1]), "x", "at", "k"),
    "id % 4": Key(_number, how=lambda before: (_number, "int")),
    "col % 5": Key(lambda row: row[0] % 5, how=lambda before: (ms.col(f"{before}id") % 5,)),
    "(k, n)": Key(_pair, how=lambda before: (_pair, "struct<a:string,b:long>")),
    "0": Key(lambda row: 0, how=lambda before: (lambda row: 0, "long")),
}


def grouped(rows: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    """Rows by key, which is one that can be compared."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(plain(KEYS[key].of(row)), []).append(row)
    return found

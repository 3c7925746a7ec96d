"""The cached rows of a table: a bounded part of the state, as it is right now.

A row that is not here is loaded when it is asked for, from wherever its latest change lies. Nothing
here is the only copy, so any row may be dropped at any time. Rows are kept in two halves: what is
used moves to the younger one, and when that is full the older one is dropped as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import filterfalse
from typing import Any

_UNKNOWN = object()

ENTRY_BYTES = 250
"""What a row takes in memory besides its data: an entry of a dictionary with its share of the room
to grow, a key and a value of several objects."""
SCALAR_ENTRY_BYTES = 130
"""The same where key and value are one object each."""


class LiveRows(dict[Any, Any]):
    """A row for each cached key, None where nothing is kept. Looking up a key loads its row."""

    def __init__(self, load: Callable[[list[Any]], None]) -> None:
        super().__init__()
        self._load = load
        self._older: dict[Any, Any] = {}
        self.single_loads = 0
        """How many rows were loaded by themselves, which costs much more than in bulk."""

    def __missing__(self, key: Any) -> Any:
        older = self._older.get(key, _UNKNOWN)
        if older is not _UNKNOWN:
            self[key] = older
            return older
        self.single_loads += 1
        self._load([key])
        return dict.__getitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        found = self[key]
        return default if found is None else found

    def has(self, key: Any) -> bool:
        """Whether the row is cached; if so, in the younger half from now on."""
        if key in self:
            return True
        older = self._older.get(key, _UNKNOWN)
        if older is _UNKNOWN:
            return False
        self[key] = older
        return True

    def peek(self, key: Any, default: Any) -> Any:
        """The row of a key if it is cached, in the generation in which it stays."""
        return dict.get(self, key, self._older.get(key, default))

    def bring(self, keys: Iterable[Any]) -> None:
        """Load in bulk what is not cached of these keys."""
        missing = list(filterfalse(self.__contains__, keys))
        if missing and self._older:
            found = list(filter(self._older.__contains__, missing))
            self.update(zip(found, map(self._older.__getitem__, found), strict=True))
            missing = list(filterfalse(self._older.__contains__, missing))
        if missing:
            self._load(list(dict.fromkeys(missing)))

    def relieve(self, most: int) -> None:
        """Drop what was not used for long, so that at most this many rows stay."""
        if len(self) > most // 2:
            self._older = dict(self)
            self.clear()

    def forget(self) -> None:
        self._older = {}
        self.clear()

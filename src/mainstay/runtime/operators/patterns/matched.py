"""A match as its author sees it: rows by the names of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mainstay.spelling import did_you_mean
from mainstay.state.timer_handles import moment

RESERVED = ("key", "rows", "start", "steps", "time")
"""What a match has beside its steps."""


class Match:
    """Rows of a key that match a pattern, or its first steps.

    ``match.small`` and ``match["small"]`` are the row of the step ``small``: None where the step
    has none. Of a step that may have several rows it is a tuple of them.
    """

    __slots__ = ("_declared", "_numbers", "_start_us", "_time_us", "key", "rows")

    def __init__(
        self,
        declared: dict[str, tuple[int, bool]],
        key: Any,
        rows: Sequence[Any],
        numbers: Sequence[int],
        start_us: int,
        time_us: int,
    ) -> None:
        self._declared = declared
        self._numbers = numbers
        self._start_us = start_us
        self._time_us = time_us
        self.key: Any = key
        """The key of its rows."""
        self.rows: tuple[Any, ...] = tuple(rows)
        """All rows, in their order."""

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps of all rows, in the same order."""
        names = {number: name for name, (number, _) in self._declared.items()}
        return tuple(names[number] for number in self._numbers)

    @property
    def start(self) -> datetime:
        """The time of the first row."""
        return moment(self._start_us)

    @property
    def time(self) -> datetime:
        """The time of the result: that of the last row, or when a match was known that had to
        wait, because a row might still have come that forbids it, or for a match that began
        before. Behind the operator no row is late by it."""
        return moment(self._time_us)

    def __getitem__(self, name: str) -> Any:
        try:
            number, is_several = self._declared[name]
        except KeyError:
            raise KeyError(self._unknown(name)) from None
        found = (row for row, step in zip(self.rows, self._numbers, strict=True) if step == number)
        return tuple(found) if is_several else next(found, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._declared:
            raise AttributeError(self._unknown(name))
        return self[name]

    def _unknown(self, name: str) -> str:
        known = (*self._declared, *RESERVED)
        return (
            f"the match has no step {name!r}; it has {', '.join(self._declared)}, and beside them "
            f"{', '.join(RESERVED)}.{did_you_mean(name, known)}"
        )

    def __repr__(self) -> str:
        shown = zip(self.steps, self.rows, strict=True)
        return f"Match({', '.join(f'{step}={row!r}' for step, row in shown)})"


def plain_row(match: Match, keys: int) -> tuple[Any, ...]:
    """A match as a row, where no function makes another of it: the key, of so many columns, when
    it began and was known, and the rows of each step."""
    key = (match.key,) if keys == 1 else match.key
    steps = (match[name] for name in match._declared)
    # A row is a tuple, too, but of a class of its own.
    shown = (list(each) if type(each) is tuple else each for each in steps)
    return (*key, match.start, match.time, *shown)

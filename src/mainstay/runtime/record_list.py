"""Lists of records that a person can read: a table in a terminal, and in a notebook.

What ``job.snapshots()`` and the like return is a list in every other respect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from html import escape
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

_LONGEST = 60
_MOST = 50
"""Rows that are shown: the last ones."""


class Shown(Protocol):
    """A record that is a row of a table."""

    def cells(self) -> Mapping[str, str]:
        """The columns of the table, in order, and what this record shows in each."""


Record = TypeVar("Record", bound=Shown)


class RecordList(list[Record]):
    """A list whose ``repr`` is a table with a line for each record.

    ``none`` is what it says instead where there is none.
    """

    def __init__(
        self, what: str, records: Iterable[Record] = (), *, none: str | None = None
    ) -> None:
        super().__init__(records)
        self._what = what
        self._none = none or f"no {what} yet"

    @overload
    def __getitem__(self, place: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> RecordList[Record]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Record | RecordList[Record]:
        if isinstance(place, slice):
            return RecordList(self._what, super().__getitem__(place), none=f"no {self._what}")
        return super().__getitem__(place)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(RecordList, none=self._none), (self._what, list(self))

    def __repr__(self) -> str:
        lines = self._lines()
        return "\n".join([*self._left_out(), *aligned(lines)]) if lines else self._none

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        table = html_table(self._lines() or [[self._none]])
        return "".join([*map(escape, self._left_out()), table])

    def _left_out(self) -> list[str]:
        more = len(self) - _MOST
        return [f"the last {_MOST} of {len(self):,} {self._what}:"] if more > 0 else []

    def _lines(self) -> list[list[str]]:
        """The head and the rows, without columns in which there is nothing."""
        return lines_of([record.cells() for record in self[-_MOST:]])


def lines_of(rows: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The head and the rows of a table, without columns in which there is nothing."""
    names = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    return [names, *([_short(row[name]) for name in names] for row in rows)] if rows else []


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells as text in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (map(str.ljust, line, widths) for line in lines)
    return ["  ".join(cells).rstrip() for cells in padded]


def html_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells for a notebook; the first is the head."""
    head, *rows = lines
    return f"<table><tr>{_cells('th', head)}</tr>{''.join(map(_row, rows))}</table>"


def _row(cells: Sequence[str]) -> str:
    return f"<tr>{_cells('td', cells)}</tr>"


def _cells(tag: str, cells: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def shown_time(seconds: float | None) -> str:
    """A time in UTC, which is the same for everybody who looks; nothing where there is none."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")

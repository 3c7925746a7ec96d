"""Lists of records that a person can read: a table in a terminal, and in a notebook.

What ``job.snapshots()`` and the like return is a list in every other respect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from html import escape
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LONGEST = 60
_MOST = 50
"""Rows that are shown: the last ones."""


class Shown(Protocol):
    """A record that is a row of a table."""

    def cells(self) -> Mapping[str, str]:
        """The columns of the table, in order, and what this record shows in each."""


Record = TypeVar("Record", bound=Shown)


class RecordList(list[Record]):
    """A list whose ``repr`` is a table with a line for each record."""

    def __init__(self, what: str, records: Iterable[Record] = ()) -> None:
        super().__init__(records)
        self._what = what

    @overload
    def __getitem__(self, place: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> RecordList[Record]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Record | RecordList[Record]:
        if isinstance(place, slice):
            return RecordList(self._what, super().__getitem__(place))
        return super().__getitem__(place)

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordList, (self._what, list(self))

    def __repr__(self) -> str:
        lines = self._lines()
        if not lines:
            return f"no {self._what} yet"
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = (map(str.ljust, line, widths) for line in lines)
        return "\n".join([*self._left_out(), *("  ".join(cells).rstrip() for cells in padded)])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        head, *rows = self._lines() or [[f"no {self._what} yet"]]
        table = f"<table><tr>{_cells('th', head)}</tr>{''.join(map(_row, rows))}</table>"
        return "".join([*map(escape, self._left_out()), table])

    def _left_out(self) -> list[str]:
        more = len(self) - _MOST
        return [f"the last {_MOST} of {len(self):,} {self._what}:"] if more > 0 else []

    def _lines(self) -> list[list[str]]:
        """The head and the rows, without columns in which there is nothing."""
        rows = [record.cells() for record in self[-_MOST:]]
        names = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
        return [names, *([_short(row[name]) for name in names] for row in rows)] if rows else []


def _row(cells: list[str]) -> str:
    return f"<tr>{_cells('td', cells)}</tr>"


def _cells(tag: str, cells: list[str]) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def shown_size(size_bytes: float) -> str:
    """A number of bytes for people."""
    power = 0
    while size_bytes >= 1024 and power < len(_UNITS) - 1:
        size_bytes /= 1024
        power += 1
    return f"{size_bytes:,.1f} {_UNITS[power]}" if power else f"{size_bytes:.0f} B"


def shown_time(seconds: float | None) -> str:
    """A time in UTC, which is the same for everybody who looks; nothing where there is none."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")

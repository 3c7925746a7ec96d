"""What tables need of the database behind them: rows by their row keys, in order."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Protocol, TypeAlias

Row: TypeAlias = "tuple[bytes, bytes]"
Change: TypeAlias = "tuple[bytes, bytes | None]"
"""A row key and its new value; None removes the row."""


class StoredRows(Protocol):
    """Rows that can be read."""

    def get_many(self, row_keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each row key, None where there is no row."""

    def scan(self, start: bytes, end: bytes | None) -> Generator[Row, None, None]:
        """The rows from one row key up to another, in order, as of now."""


class WritableRows(StoredRows, Protocol):
    """Rows that can be written as well, by one thread while another one reads."""

    def write(self, changes: Iterable[Change]) -> None:
        """Put and remove rows, in order."""

    def write_columns(self, row_keys: Sequence[bytes], cells: Sequence[bytes | None]) -> None:
        """The same, of rows given as columns."""

"""A table of the database as the tables of a backend read it: as if it were a local one.

What was read ahead is handed over here, so that a row is put together in one way, wherever its
cell comes from. What was not is read at once, which the loop waits for; it is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from mainstay.errors import MainstayError
from mainstay.state.backends.cached.lists import GENERATION
from mainstay.state.backends.contract import Place
from mainstay.state.backends.external.changes import key_of, row_key_of
from mainstay.state.backends.external.store import (
    PART,
    Store,
    StoreAwayError,
    Stored,
    TableSet,
    patiently,
)

Found = TypeVar("Found")
Rows = Mapping[bytes, list[tuple[bytes, bytes]]]


class RemoteTable:
    """The rows of one state in the key-groups of one subtask; see ``cached.stored_rows``."""

    def __init__(self, store: Store, tables: TableSet, table: Any, place: Place) -> None:
        self.tables = tables
        self._store, self._groups, self._attempt = store, place.groups, place.attempt
        self._state: str = table.info.name
        self._kind: str = table.info.kind.stored_as
        self._divided = table.rows.entry_cell
        self._ready: Rows = {}
        self._known: frozenset[bytes] = frozenset()
        self.single_reads = 0
        """How often the loop had to wait for a round trip."""

    @property
    def is_map(self) -> bool:
        return self._kind == "map"

    def read(self, keys: Sequence[bytes]) -> Rows:
        """What the database has at these ``k``. Runs in the background."""
        wanted = sorted(set(keys))
        return self._asked(
            lambda: self._store.read(self.tables, self._attempt, self._state, wanted)
        )

    def _asked(self, read: Callable[[], Found]) -> Found:
        """What is read. Tables go when a later attempt has made them anew: this one is to stop."""
        try:
            return read()
        except StoreAwayError:
            raise
        except MainstayError:
            self._store.check_fence(self.tables, self._attempt)
            raise

    def hand_over(self, keys: Iterable[bytes], rows: Rows) -> None:
        """What was read is what the next reads of these keys find."""
        self._ready, self._known = rows, frozenset(keys)

    def forget_ready(self) -> None:
        self._ready, self._known = {}, frozenset()

    def _rows(self, keys: Sequence[bytes]) -> Rows:
        missing = [k for k in keys if k not in self._known]
        if not missing:
            return self._ready
        self.single_reads += 1
        return {**self._ready, **patiently(lambda: self.read(missing))}

    # ------------------------------------------------------------ what a database does

    def get_many(self, row_keys: Sequence[bytes]) -> list[bytes | None]:
        if self.is_map:
            return [self._entry(row_key) for row_key in row_keys]
        keys = [key_of(row_key) for row_key in row_keys]
        rows = self._rows(keys)
        return [self._cell(rows[k]) if k in rows else None for k in keys]

    def _entry(self, row_key: bytes) -> bytes | None:
        prefix, s = self._divided(row_key)
        k = key_of(prefix)
        if k in self._known:
            return dict(self._ready.get(k, ())).get(s)
        self.single_reads += 1
        whose = (self.tables, self._attempt, self._state)
        return self._asked(lambda: patiently(lambda: self._store.read_entry(*whose, k, s)))

    def _cell(self, rows: Sequence[tuple[bytes, bytes]]) -> bytes:
        if self._kind != "list":
            return rows[0][1]
        # The last part says which segments the database has of this list.
        number, _ = PART.unpack(rows[-1][0])
        return GENERATION.pack(number) + b"".join(cell for _, cell in rows)

    def scan(self, start: bytes, end: bytes | None) -> Generator[tuple[bytes, bytes], None, None]:
        """All rows, or those of the map whose row keys begin with ``start``."""
        if end is None:
            yield from self._scan_all()
            return
        k = key_of(start)
        for s, cell in self._rows([k]).get(k, ()):
            yield start + s, cell

    def _scan_all(self) -> Iterator[tuple[bytes, bytes]]:
        rows = self._store.scan(self.tables, self._state, self._groups)
        for k, some in groupby(rows, lambda row: row[0]):
            yield from self._row_keys(k, some)

    def _row_keys(self, k: bytes, rows: Iterable[Stored]) -> Iterator[tuple[bytes, bytes]]:
        row_key = row_key_of(k)
        if self.is_map:
            for _, s, cell in rows:
                yield row_key + s, cell
        else:
            yield row_key, self._cell([(s, cell) for _, s, cell in rows])

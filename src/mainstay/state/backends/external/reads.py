"""Reading ahead: what a batch is about to ask for is read in the background, in bulk.

While a read is under way the database may take a segment in that the read has not seen. Memory
keeps such a segment's changes until every read that was begun before has been handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainstay.state.backends.contract import Looks, Work
from mainstay.state.backends.external.changes import key_of
from mainstay.state.backends.external.reading import RemoteTable, Rows
from mainstay.state.backends.tables import Tables

MOST_ENTRIES = 100
"""Maps with more entries than this, on average, are not read as a whole for one of them."""


class Reads:
    """The reads of one backend that are under way. ``drop`` forgets the changes of a segment."""

    def __init__(self, tables: Tables, drop: Callable[[int], None]) -> None:
        self._tables = tables
        self._drop = drop
        self._begun = 0
        self._under_way: set[int] = set()
        self._retiring: list[tuple[int, set[int]]] = []
        self.hits = 0
        self.misses = 0
        self._entries: dict[str, tuple[int, int]] = {}

    @property
    def looks(self) -> Looks:
        single = sum(table.database.single_reads for table in self._tables.values())
        return Looks(self.hits, self.misses, single)

    # ------------------------------------------------------------ segments

    def applied(self, number: int) -> None:
        """The database has a segment now: reads from here on see it."""
        self._retiring.append((number, set(self._under_way)))
        self._retire()

    def _retire(self) -> None:
        while self._retiring and not self._retiring[0][1]:
            self._drop(self._retiring.pop(0)[0])

    def _ended(self, read: int) -> None:
        self._under_way.discard(read)
        for _, waits_for in self._retiring:
            waits_for.discard(read)
        self._retire()

    # ------------------------------------------------------------ reads

    def ahead(self, keys: Sequence[Any]) -> Work | None:
        """What is to be read for these keys; None where all of it is known."""
        distinct = list(dict.fromkeys(keys))
        wanted = {name: self._missing(name, distinct) for name in self._tables}
        wanted = {name: some for name, some in wanted.items() if some}
        if not wanted:
            return None
        self._begun += 1
        read = self._begun
        self._under_way.add(read)
        places = {name: self._places(name, some) for name, some in wanted.items()}

        def run() -> dict[str, Rows]:
            return {name: self._tables[name].database.read(ks) for name, ks in places.items()}

        def done(found: dict[str, Rows]) -> None:
            for name, rows in found.items():
                self._hand_over(name, wanted[name], places[name], rows)
            self._ended(read)

        return Work(run, done, lambda error: self._ended(read))

    def _missing(self, name: str, keys: Sequence[Any]) -> list[Any]:
        """The keys that are not cached, of a state that is asked at all."""
        table = self._tables[name]
        if not self._is_asked(name, table):
            return []
        missing = [key for key in keys if not table.live.has(key)]
        self.misses += len(missing)
        self.hits += len(keys) - len(missing)
        return missing

    def _is_asked(self, name: str, table: Any) -> bool:
        remote: RemoteTable = table.database
        if table.stored_key.namespace is not None:
            return False  # which namespaces it will be nobody knows yet
        if not table.live.single_loads and not remote.single_reads:
            return False
        keys, entries = self._entries.get(name, (0, 0))
        return not remote.is_map or entries <= keys * MOST_ENTRIES

    def _places(self, name: str, keys: Sequence[Any]) -> list[bytes]:
        return [key_of(row_key) for row_key in self._tables[name].rows.of(keys)]

    def _hand_over(
        self, name: str, keys: Sequence[Any], places: Sequence[bytes], rows: Rows
    ) -> None:
        table = self._tables[name]
        known, entries = self._entries.get(name, (0, 0))
        self._entries[name] = (known + len(keys), entries + sum(map(len, rows.values())))
        table.database.hand_over(places, rows)
        # What was written or read meanwhile is newer.
        table.live.bring(keys)
        table.database.forget_ready()

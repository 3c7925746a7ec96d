"""Maps in a database: a row for each entry, so that one is read and changed without the others.

A map that is asked for as a whole is cached as a whole (``CachedTable``); one that is only
asked for single entries is not, however large it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from mainstay.state.backends.cached.cells import cells_of
from mainstay.state.backends.cached.rows import prefix_end
from mainstay.state.backends.cached.tables import CachedTable
from mainstay.state.backends.changes import DELETED, entries_of, map_columns, map_operations
from mainstay.state.info import StateInfo
from mainstay.state.keyed import ABSENT
from mainstay.state.stored_key import StoredKey


class CachedMaps(CachedTable):
    """A map per key, each entry in a row of its own: to change or read one touches no other.

    A change is a pair: whether it cleared first, and the entries after that. ``some`` has entries
    that were asked for by themselves, of maps that are not cached as a whole; ``ABSENT`` where
    there is none.
    """

    is_map = True

    def __init__(
        self, info: StateInfo, stored: StoredKey, number: int, max_parallelism: int
    ) -> None:
        super().__init__(info, stored, number, max_parallelism)
        assert info.map_key is not None
        self.map_key = info.map_key
        self.key_cells = cells_of(info.map_key, is_key=True)
        self.cells = cells_of(info.value)
        self.some: dict[Any, dict[Any, Any]] = {}
        self._some_entries = 0
        self._entries = 0

    @property
    def weight(self) -> int:
        return self._entries + len(self.changes)

    def newest_of(self, change: Any) -> Any:
        _, entries = change
        return next(((name, entries[name]) for name in reversed(entries)), None)

    def entry(self, key: Any, map_key: Any) -> Any:
        """What is kept of one entry, without the others; ``ABSENT`` where there is none."""
        if self.live.has(key):
            entries = self.live[key]
            return ABSENT if entries is None else entries.get(map_key, ABSENT)
        some = self.some.setdefault(key, {})
        if map_key not in some:
            some[map_key] = self._found(key, map_key)
            self._some_entries += 1
        return some[map_key]

    def has_entry(self, key: Any, map_key: Any) -> bool:
        return self.entry(key, map_key) is not ABSENT

    def _found(self, key: Any, map_key: Any) -> Any:
        """An entry from wherever its latest change lies, the newest first."""
        for part in (self.changes, *(part for _, part in reversed(self.frozen))):
            cleared, changed = part.get(key, (False, {}))
            if map_key in changed:
                kept = changed[map_key]
                return ABSENT if kept is DELETED else kept
            if cleared:
                return ABSENT
        return self._stored_entry(key, map_key)

    def _stored_entry(self, key: Any, map_key: Any) -> Any:
        if self.database is None:
            return ABSENT
        (prefix,) = self.rows.of([key])
        (cell,) = self.database.get_many([prefix + self.key_cells.cell(map_key)])
        return ABSENT if cell is None else self.decoded_values([cell])[0]

    def _note(self, key: Any, map_key: Any, kept: Any) -> None:
        """An entry of a map that is not cached as a whole has changed."""
        if key in self.some:
            self.some[key][map_key] = kept
            self._some_entries += 1

    def keep(self, memory_bytes: int) -> None:
        super().keep(memory_bytes)
        if self._some_entries > self.most_rows(memory_bytes) // 2:
            self._forget_some()

    def forget(self) -> None:
        super().forget()
        self._forget_some()

    def _forget_some(self) -> None:
        self.some = {}
        self._some_entries = 0

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None:
        self._entries += 1
        if self.live.has(key):
            entries = self.live[key]
            if entries is None:
                self.live[key] = {map_key: kept}
            else:
                entries[map_key] = kept
        else:
            self._note(key, map_key, kept)
        entries_of(self.changes, key)[map_key] = kept

    def remove_entry(self, key: Any, map_key: Any) -> None:
        if self.live.has(key):
            entries = self.live[key]
            if entries is None or map_key not in entries:
                return
            del entries[map_key]
            if not entries:
                self.live[key] = None
        else:
            self._note(key, map_key, ABSENT)
        self._entries += 1
        entries_of(self.changes, key)[map_key] = DELETED

    def delete(self, key: Any) -> None:
        if self.live.has(key) and self.live[key] is None:
            return
        self.live[key] = None
        self.some.pop(key, None)
        self.changes[key] = (True, {})

    def freeze_as(self, generation: int) -> list[Any]:
        self._entries = 0
        return super().freeze_as(generation)

    def operations(self, changes: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
        return map_operations(changes)

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        return map_columns(rows, self.key, self.map_key, self.info.value)

    def load(self, keys: list[Any]) -> None:
        for key, prefix in zip(keys, self.rows.of(keys), strict=True):
            self.live[key] = self._found_at(key, prefix)
            self.some.pop(key, None)

    def found(self, key: Any) -> Any:
        return self._found_at(key, *self.rows.of([key]))

    def _found_at(self, key: Any, prefix: bytes) -> dict[Any, Any] | None:
        """A map as the database has it, with the changes that it may not have yet."""
        entries: dict[Any, Any] = {}
        if self.database is not None:
            entries = self.decoded(list(self.database.scan(prefix, prefix_end(prefix))))
        for part in (*(part for _, part in self.frozen), self.changes):
            entries = _overlaid(entries, part.get(key))
        return entries or None

    def decoded(self, rows: Sequence[tuple[bytes, bytes]]) -> dict[Any, Any]:
        """The entries in rows of one key."""
        names = self.key_cells.decode([self.rows.entry_cell(row_key)[1] for row_key, _ in rows])
        return dict(zip(names, self.decoded_values([cell for _, cell in rows]), strict=True))

    def decoded_values(self, cells: Sequence[bytes]) -> list[Any]:
        """The values of entries, each with a byte before it that says whether it is there."""
        kept = iter(self.cells.decode([cell[1:] for cell in cells if cell[0]]))
        return [next(kept) if cell[0] else None for cell in cells]

    def stored(self) -> Iterator[tuple[Any, Any]]:
        for prefix, rows in groupby(self.scan(), lambda row: self.rows.entry_cell(row[0])[0]):
            (key,) = self.rows.keys([prefix])
            yield key, self.decoded(list(rows))


def _overlaid(entries: dict[Any, Any], change: Any) -> dict[Any, Any]:
    """A map after a change of it: whether it was cleared first, and the entries after that."""
    if change is None:
        return entries
    cleared, changed = change
    after = {} if cleared else entries
    for map_key, kept in changed.items():
        if kept is DELETED:
            after.pop(map_key, None)
        else:
            after[map_key] = kept
    return after

"""The tables of the RocksDB backend: what is at hand, the changes, and the database behind them.

A write changes the row at hand and the active segment. A row that is not at hand is put together
from the database and the changes that it does not have yet: those of frozen segments, oldest first,
and those of the active one. The database is read by the loop and written beside it
(``rocksdb_writing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any

import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column, accumulating
from mainstay.state.backends.changes import (
    DELETED,
    append_to,
    entries_of,
    list_columns,
    list_operations,
    map_columns,
    map_operations,
)
from mainstay.state.backends.rocksdb_access import rocks_access
from mainstay.state.backends.rocksdb_cells import cells_of
from mainstay.state.backends.rocksdb_database import Database
from mainstay.state.backends.rocksdb_lists import GENERATION, ListCells
from mainstay.state.backends.rocksdb_live import LiveRows
from mainstay.state.backends.rocksdb_memory import ENTRY_BYTES
from mainstay.state.backends.rocksdb_rows import PREFIX, RowKeys, prefix_end
from mainstay.state.declaration import StateInfo
from mainstay.state.keyed import Access, KeyContext
from mainstay.state.operations import DELETE, PUT
from mainstay.state.values import ValueType

SLICE_ROWS = 4096
"""Rows converted between two chances for the loop to do something else."""
SCANNED_ROWS = 4096
_CACHED = 0.5
"""The share of a table's memory that is for rows at hand; the rest is for changes."""


class RocksTable:
    """What the kinds share: rows at hand, changes, and where rows lie in the database."""

    is_map = False

    def __init__(self, info: StateInfo, key: ValueType, number: int, max_parallelism: int) -> None:
        self.info = info
        self.key = key
        self.changes: dict[Any, Any] = {}
        """The active segment: what has changed of each key."""
        self.rows = RowKeys(number, key, max_parallelism, is_map=self.is_map)
        self.live = LiveRows(self.load)
        self.database: Database | None = None
        self.frozen: list[tuple[int, dict[Any, Any]]] = []
        """Changes that the database may not have yet, with their generation, oldest first."""
        self.row_bytes = ENTRY_BYTES
        """About what a row takes in memory; learned from what was encoded."""

    @property
    def weight(self) -> int:
        """How many rows, elements or entries the active segment holds."""
        return len(self.changes)

    def read(self, key: Any) -> Any:
        return self.live[key]

    def load(self, keys: list[Any]) -> None:
        """Bring rows at hand that are not."""
        raise NotImplementedError

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Load what a batch is about to ask for, if this table is asked at all."""
        if self.live.single_loads:
            self.live.bring(keys)

    def keep(self, memory_bytes: int) -> None:
        """Let go of rows beyond this table's part of memory."""
        self.live.relieve(int(memory_bytes * _CACHED) // self.row_bytes)

    def learn(self, column_bytes: int, rows: int) -> None:
        """What was encoded says how large rows are; objects take a few times as much."""
        if rows:
            self.row_bytes = ENTRY_BYTES + 2 * (column_bytes // rows)

    def freeze_as(self, generation: int) -> list[Any]:
        """Hand the active segment out; its changes stay readable until the database has them."""
        if not self.changes:
            return []
        part, self.changes = self.changes, {}
        self.frozen.append((generation, part))
        return [part]

    def leftovers(self, parts: Sequence[Any]) -> Sequence[Any]:
        """The parts that take time to free."""
        return parts

    def repeats_keys(self, parts: Sequence[Any]) -> bool:
        """Whether a frozen segment may hold many rows that later ones make useless."""
        return False

    def encode(self, parts: Sequence[dict[Any, Any]]) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        operations = chain.from_iterable(self.operations(part) for part in parts)
        while rows := list(islice(operations, SLICE_ROWS)):
            yield self.columns(rows)

    def operations(self, changes: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
        """The rows that a part of a segment stands for."""
        raise NotImplementedError

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        raise NotImplementedError

    def absorbed(self, generation: int) -> None:
        """The database has everything up to this generation."""
        self.frozen = [(number, part) for number, part in self.frozen if number > generation]

    def changed_keys(self) -> dict[Any, None]:
        parts = [part for _, part in self.frozen]
        return {key: None for part in (*parts, self.changes) for key in part}

    def entries(self) -> Iterator[tuple[Any, Any]]:
        changed = self.changed_keys()
        for key, kept in self.stored():
            if key not in changed:
                yield key, kept
        for key in changed:
            if (kept := self.live.get(key)) is not None:
                yield key, kept

    def survey(self) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it, while others change it between two steps.

        What was there at the beginning comes once at least, as it is then or as it was.
        """
        for key in self.changed_keys():
            if (kept := self.live.get(key)) is not None:
                yield key, kept
        yield from self.stored()

    def stored(self) -> Iterator[tuple[Any, Any]]:
        """Every key that the database has, and what it has for it."""
        raise NotImplementedError

    def copied(
        self, rows: Sequence[tuple[bytes, bytes]], generation: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of the same state of another database, as they are here."""
        number = self.rows.number.to_bytes(2, "big")
        for row_key, cell in rows:
            yield row_key[:2] + number + row_key[4:], cell

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """The rows of this state, in order."""
        if self.database is None:
            return
        for row_key, cell in self.database.scan(b"", None):
            if PREFIX.unpack_from(row_key)[1] == self.rows.number:
                yield row_key, cell

    def scan_chunks(self) -> Iterator[list[tuple[bytes, bytes]]]:
        chunk: list[tuple[bytes, bytes]] = []
        for row in self.scan():
            chunk.append(row)
            if len(chunk) == SCANNED_ROWS:
                yield chunk
                chunk = []
        if chunk:
            yield chunk


class RocksValues(RocksTable):
    """One kept value per key. A change is the new value, or the mark of a deletion."""

    def __init__(self, info: StateInfo, key: ValueType, number: int, max_parallelism: int) -> None:
        super().__init__(info, key, number, max_parallelism)
        self.cells = cells_of(info.value)

    def load(self, keys: list[Any]) -> None:
        live = self.live
        left = keys
        for part in (self.changes, *(part for _, part in reversed(self.frozen))):
            if part and left:
                live.update((k, _unmarked(part[k])) for k in left if k in part)
                left = [key for key in left if key not in part]
        if left:
            live.update(self._from_database(left))

    def _from_database(self, keys: list[Any]) -> dict[Any, Any]:
        found = dict.fromkeys(keys)
        if self.database is not None:
            cells = self.database.get_many(self.rows.of(keys))
            there = [key for key, cell in zip(keys, cells, strict=True) if cell is not None]
            kept = self.cells.decode([cell for cell in cells if cell is not None])
            found.update(zip(there, kept, strict=True))
        return found

    def access(self, context: KeyContext) -> Access:
        return rocks_access(self, context)

    def put(self, key: Any, kept: Any) -> None:
        self.live[key] = kept
        self.changes[key] = kept

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]:
        self.live.bring(keys)
        return [default if (kept := self.live[key]) is None else kept for key in keys]

    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None:
        """Store values by the batch; None deletes."""
        if any(value is None for value in kept):
            for key, value in zip(keys, kept, strict=True):
                self.delete(key) if value is None else self.put(key, value)
            return
        self.live.update(zip(keys, kept, strict=True))
        self.changes.update(zip(keys, kept, strict=True))

    def delete(self, key: Any) -> None:
        if self.live.has(key) and self.live[key] is None:
            return
        self.live[key] = None
        self.changes[key] = DELETED

    def operations(self, changes: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
        for key, kept in changes.items():
            yield (key, DELETE, None) if kept is DELETED else (key, PUT, kept)

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        keys, ops, kept = zip(*rows, strict=True)
        return [self.key.to_array(keys), pa.array(ops, pa.int8()), self.info.value.to_array(kept)]

    def stored(self) -> Iterator[tuple[Any, Any]]:
        for chunk in self.scan_chunks():
            keys = self.rows.keys([row_key for row_key, _ in chunk])
            yield from zip(keys, self.cells.decode([cell for _, cell in chunk]), strict=True)


class RocksColumns(RocksValues):
    """One row of accumulators per key, read and written for the keys of a batch in one go."""

    def __init__(self, info: StateInfo, key: ValueType, number: int, max_parallelism: int) -> None:
        super().__init__(info, key, number, max_parallelism)
        self.parts: list[Accumulating] = [accumulating(each) for each in info.function]

    def fold(self, keys: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge a partial result of each accumulator into each of some distinct keys."""
        kept_keys = self.key.from_array(keys)
        rows = self.read_many(kept_keys, None)
        fields = self.info.value.to_array(rows).flatten()
        merged = [
            part.merge(part.from_arrow(field), partial)
            for part, field, partial in zip(self.parts, fields, partials, strict=True)
        ]
        arrays = [part.to_arrow(c) for part, c in zip(self.parts, merged, strict=True)]
        values = pa.StructArray.from_arrays(arrays, fields=list(self.info.value.arrow))
        self.put_many(kept_keys, self.info.value.from_array(values))
        return merged


class RocksLists(RocksTable):
    """A list per key. Appending does not read what is there.

    A change is a pair: whether it replaces, and the elements; or the mark of a deletion.
    """

    def __init__(self, info: StateInfo, key: ValueType, number: int, max_parallelism: int) -> None:
        super().__init__(info, key, number, max_parallelism)
        self.cells = ListCells(info.value)
        self._elements = 0

    @property
    def weight(self) -> int:
        return self._elements + len(self.changes)

    def put(self, key: Any, kept: list[Any]) -> None:
        self._elements += len(kept)
        self.live[key] = list(kept)
        self.changes[key] = (True, list(kept))

    def append(self, key: Any, kept: list[Any]) -> None:
        self._elements += len(kept)
        if self.live.has(key):
            items = self.live[key]
            self.live[key] = list(kept) if items is None else items
            if items is not None:
                items.extend(kept)
        append_to(self.changes, key, kept)

    def delete(self, key: Any) -> None:
        if self.live.has(key) and self.live[key] is None:
            return
        self.live[key] = None
        self.changes[key] = DELETED

    def freeze_as(self, generation: int) -> list[Any]:
        self._elements = 0
        return super().freeze_as(generation)

    def operations(self, changes: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
        return list_operations(changes)

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        return list_columns(rows, self.key, self.info.value)

    def load(self, keys: list[Any]) -> None:
        found: list[bytes | None] = [None] * len(keys)
        if self.database is not None:
            found = self.database.get_many(self.rows.of(keys))
        for key, cell in zip(keys, found, strict=True):
            # The database may have some of the frozen changes already: its row says which.
            generation, items = (-1, []) if cell is None else self.cells.decode(cell)
            for number, part in self.frozen:
                if number > generation:
                    items = _appended(items, part.get(key))
            self.live[key] = _appended(items, self.changes.get(key)) or None

    def copied(
        self, rows: Sequence[tuple[bytes, bytes]], generation: int
    ) -> Iterator[tuple[bytes, bytes]]:
        # Generations count within one database.
        head = GENERATION.pack(generation)
        for row_key, cell in super().copied(rows, generation):
            yield row_key, head + cell[GENERATION.size :]

    def stored(self) -> Iterator[tuple[Any, Any]]:
        for chunk in self.scan_chunks():
            keys = self.rows.keys([row_key for row_key, _ in chunk])
            yield from zip(keys, (self.cells.decode(cell)[1] for _, cell in chunk), strict=True)


class RocksMaps(RocksTable):
    """A map per key, each entry in a row of its own: to change one touches no other.

    A change is a pair: whether it cleared first, and the entries after that.
    """

    is_map = True

    def __init__(self, info: StateInfo, key: ValueType, number: int, max_parallelism: int) -> None:
        super().__init__(info, key, number, max_parallelism)
        assert info.map_key is not None
        self.map_key = info.map_key
        self.key_cells = cells_of(info.map_key, is_key=True)
        self.cells = cells_of(info.value)
        self._entries = 0

    @property
    def weight(self) -> int:
        return self._entries + len(self.changes)

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None:
        self._entries += 1
        if self.live.has(key):
            entries = self.live[key]
            if entries is None:
                self.live[key] = {map_key: kept}
            else:
                entries[map_key] = kept
        entries_of(self.changes, key)[map_key] = kept

    def remove_entry(self, key: Any, map_key: Any) -> None:
        if self.live.has(key):
            entries = self.live[key]
            if entries is None or map_key not in entries:
                return
            del entries[map_key]
            if not entries:
                self.live[key] = None
        self._entries += 1
        entries_of(self.changes, key)[map_key] = DELETED

    def delete(self, key: Any) -> None:
        if self.live.has(key) and self.live[key] is None:
            return
        self.live[key] = None
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
            entries: dict[Any, Any] = {}
            if self.database is not None:
                rows = list(self.database.scan(prefix, prefix_end(prefix)))
                entries = self.decoded(rows)
            for part in (*(part for _, part in self.frozen), self.changes):
                entries = _overlaid(entries, part.get(key))
            self.live[key] = entries or None

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


def _unmarked(change: Any) -> Any:
    return None if change is DELETED else change


def _appended(items: list[Any], change: Any) -> list[Any]:
    """A list after a change of it: none, a deletion, or elements that replace or follow."""
    if change is None:
        return items
    if change is DELETED:
        return []
    return list(change[1]) if change[0] else [*items, *change[1]]


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


TABLES: dict[str, Callable[[StateInfo, ValueType, int, int], Any]] = {
    "value": RocksValues,
    "reducing": RocksValues,
    "aggregating": RocksValues,
    "list": RocksLists,
    "map": RocksMaps,
    "columns": RocksColumns,
}

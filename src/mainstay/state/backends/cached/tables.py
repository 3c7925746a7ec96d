"""Tables over a database: cached rows, changes, and the database behind them.

A write changes the cached row and the active segment. A row that is not cached is put together
from the database and the changes that it does not have yet: those of frozen segments, oldest first,
and those of the active one. The database is read by the loop and written in the background
(``writing``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, filterfalse, islice
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.schema.sizes import is_sized
from mainstay.state.accumulating import Accumulating, Column, accumulating
from mainstay.state.backends.cached.access import cached_access
from mainstay.state.backends.cached.cells import cells_of
from mainstay.state.backends.cached.grown import GrownChanges, before_in, grown_rows
from mainstay.state.backends.cached.live import ENTRY_BYTES, SCALAR_ENTRY_BYTES, LiveRows
from mainstay.state.backends.cached.namespaces import row_keys_of
from mainstay.state.backends.cached.row_sizes import Looks, held_bytes
from mainstay.state.backends.cached.rows import PREFIX
from mainstay.state.backends.cached.stored_rows import StoredRows
from mainstay.state.backends.changes import in_slices
from mainstay.state.backends.folding import fold, fold_held, held_rows
from mainstay.state.info import StateInfo
from mainstay.state.keyed import Access, AnyContext
from mainstay.state.operations import DELETE, PUT, may_append
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import PICKLED, ValueType

SLICE_ROWS = 4096
"""Rows converted between two chances for the loop to do something else."""
SCANNED_ROWS = 4096
_MANY_KEYS = 512
"""Keys from which on it pays to read them in order."""
_UNKNOWN = object()
CACHED = 0.5
"""The share of a table's memory that is for cached rows; the rest is for changes."""


def chunks(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """The rows of a scan some thousand at a time, so that they are converted by the column."""
    while chunk := list(islice(rows, SCANNED_ROWS)):
        yield chunk


class CachedTable:
    """What the kinds share: cached rows, changes, and where rows lie in the database."""

    is_map = False

    def __init__(
        self, info: StateInfo, stored: StoredKey, number: int, max_parallelism: int
    ) -> None:
        self.info = info
        self.stored_key = stored
        self.key = stored.type
        self.max_parallelism = max_parallelism
        self.changes: dict[Any, Any] = {}
        """The active segment: what has changed of each key."""
        self.rows = row_keys_of(number, stored, max_parallelism, is_map=self.is_map)
        self.live = LiveRows(self.load)
        self.database: StoredRows | None = None
        self.frozen: list[tuple[int, dict[Any, Any]]] = []
        """Changes that the database may not have yet, with their generation, oldest first."""
        self.entry_bytes = ENTRY_BYTES
        self._encoded_bytes = 0
        """What rows took, besides an entry, when a segment was last encoded."""
        self._changed, self._cached = Looks(), Looks()
        self._varies = self.is_map or any(is_sized(each.arrow) for each in (self.key, info.value))

    @property
    def weight(self) -> int:
        """How many rows, elements or entries the active segment holds."""
        return len(self.changes)

    @property
    def row_bytes(self) -> int:
        """About what a row, element or entry of the active segment takes in memory."""
        return self.entry_bytes + max(self._encoded_bytes, int(self._changed.mean_bytes))

    def read(self, key: Any) -> Any:
        return self.live[key]

    def peek(self, key: Any) -> Any:
        """What is kept for a key, without a trace of the look."""
        kept = self.live.peek(key, _UNKNOWN)
        return self.found(key) if kept is _UNKNOWN else kept

    def found(self, key: Any) -> Any:
        """What is kept for a key that is not cached, from wherever it lies."""
        raise NotImplementedError

    def bring(self, keys: Sequence[Any]) -> None:
        """Many keys are about to be read: load them in bulk."""
        self.live.bring(keys)

    def load(self, keys: list[Any]) -> None:
        """Cache rows that are not cached."""
        raise NotImplementedError

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Load what a batch is about to ask for, if this table is asked at all.

        Which namespaces that will be nobody knows yet.
        """
        if self.live.single_loads and self.stored_key.namespace is None:
            self.live.bring(keys)

    def keep(self, memory_bytes: int) -> None:
        """Drop cached rows beyond this table's part of memory."""
        if self._varies:
            self._look()
        row_bytes = max(self.row_bytes, self.entry_bytes + int(self._cached.mean_bytes))
        self.live.relieve(int(memory_bytes * CACHED) // row_bytes)

    def most_rows(self, memory_bytes: int) -> int:
        """How many elements or entries this table's part of memory is enough for."""
        return int(memory_bytes * CACHED) // self.row_bytes

    def _look(self) -> None:
        """See how large the row is that was written last, and the one that was cached last."""
        if self.changes:
            key = next(reversed(self.changes))
            self._changed.saw(held_bytes(key) + held_bytes(self.newest_of(self.changes[key])))
        if self.live:
            key = next(reversed(self.live))
            self._cached.saw(held_bytes(key) + held_bytes(dict.__getitem__(self.live, key)))

    def newest_of(self, change: Any) -> Any:
        """What ``weight`` counts as one of a change: the value, or its last element or entry."""
        return change

    def forget(self) -> None:
        """Drop all cached rows: the database was changed under them."""
        self.live.forget()

    def restored(self) -> None:
        """The database has what is restored, and nobody else uses the table yet."""

    def renumber(self, number: int) -> None:
        """The database knows the state by another number."""
        self.rows.number = number

    def learn(self, column_bytes: int, rows: int) -> None:
        """What was encoded says how large rows are; objects take a few times as much."""
        if rows:
            self._encoded_bytes = 2 * (column_bytes // rows)

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
        return in_slices(operations, SLICE_ROWS, self.columns, self.info, self.key)

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
        return chunks(self.scan())


class CachedValues(CachedTable):
    """One kept value per key. A change is the new value, None where it was deleted."""

    has_rows_beside = False
    """Whether other rows of the database change with those of the state (see ``beside``)."""

    def __init__(
        self, info: StateInfo, stored: StoredKey, number: int, max_parallelism: int
    ) -> None:
        super().__init__(info, stored, number, max_parallelism)
        self.cells = cells_of(info.value)
        if not any(map(_is_several_objects, (self.key, info.value))):
            self.entry_bytes = SCALAR_ENTRY_BYTES

    def load(self, keys: list[Any]) -> None:
        left = keys
        for part in (self.changes, *(part for _, part in reversed(self.frozen))):
            found = list(filter(part.__contains__, left)) if part else []
            if found:
                self.live.update(zip(found, map(part.__getitem__, found), strict=True))
                left = list(filterfalse(part.__contains__, left))
        if left:
            self._load_stored(left)

    def _load_stored(self, keys: list[Any]) -> None:
        """Cache rows whose latest change, if there is any, is in the database."""
        cells: list[bytes | None] = [None] * len(keys)
        if self.database is not None and len(keys) < _MANY_KEYS:
            cells = self.database.get_many(self.rows.of(keys))
        elif self.database is not None:
            # In the order in which they lie: neighbours are found together.
            column = self.key.to_array(keys)
            groups = self.stored_key.groups(column, self.max_parallelism)
            row_keys, order = self.rows.in_order(column, groups)
            keys = list(map(keys.__getitem__, order.tolist()))
            cells = self.database.get_many(row_keys)
        there = [cell for cell in cells if cell is not None]
        if len(there) < len(keys):
            self.live.update(dict.fromkeys(keys))
            keys = [key for key, cell in zip(keys, cells, strict=True) if cell is not None]
        if there:
            self.live.update(zip(keys, self.cells.decode(there), strict=True))

    def found(self, key: Any) -> Any:
        for part in (self.changes, *(part for _, part in reversed(self.frozen))):
            if key in part:
                return part[key]
        (cell,) = (None,) if self.database is None else self.database.get_many(self.rows.of([key]))
        return None if cell is None else self.cells.decode([cell])[0]

    def access(self, context: AnyContext, info: StateInfo | None = None) -> Access:
        return cached_access(self, context, info or self.info)

    def put(self, key: Any, kept: Any) -> None:
        self.live[key] = kept
        self.changes[key] = kept

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]:
        self.live.bring(keys)
        found = list(map(self.live.__getitem__, keys))
        if default is None:
            return found
        return [default if kept is None else kept for kept in found]

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
        self.changes[key] = None

    def encode(self, parts: Sequence[dict[Any, Any]]) -> Iterator[list[pa.Array]]:
        def columns(rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
            keys, kept = zip(*rows, strict=True)
            values = self.column(kept)
            return [self.key.to_array(keys), _puts_and_deletes(values), values]

        changes = chain.from_iterable(map(self.said, parts))
        return in_slices(changes, SLICE_ROWS, columns, self.info, self.key)

    def said(self, part: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
        """The changes of a segment that its rows say."""
        return part.items()

    def column(self, kept: Sequence[Any]) -> pa.Array:
        """A column of what rows in memory hold."""
        return self.info.value.to_array(kept)

    def beside(
        self, database: StoredRows, changes: Mapping[bytes, bytes | None]
    ) -> Mapping[bytes, bytes | None]:
        """What else changes in the database with rows of this state, which it has as before."""
        return {}

    def stored(self) -> Iterator[tuple[Any, Any]]:
        for chunk in self.scan_chunks():
            keys = self.rows.keys([row_key for row_key, _ in chunk])
            yield from zip(keys, self.cells.decode([cell for _, cell in chunk]), strict=True)


class CachedColumns(CachedValues):
    """One row of accumulators per key, read and written for the keys of a batch in one go."""

    appends = False
    """Whether a segment holds of sets what was added to them; the database must be able to."""

    changes: GrownChanges

    def __init__(
        self, info: StateInfo, stored: StoredKey, number: int, max_parallelism: int
    ) -> None:
        super().__init__(info, stored, number, max_parallelism)
        self.parts: list[Accumulating] = [accumulating(each) for each in info.function]
        self._are_shared = any(part.is_shared for part in self.parts)
        self.changes = GrownChanges()

    def append_sets(self) -> None:
        """Let segments hold what was added to sets, where all lists of a row are such."""
        self.appends = may_append(self.info.value.arrow, [part.is_shared for part in self.parts])

    def fold(self, keys: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge a partial result of each accumulator into each of some distinct keys."""
        if self._are_shared:
            return fold_held(self, self.parts, keys, partials)
        return fold(self, self.parts, keys, partials)

    def note_before(self, keys: Sequence[Any], rows: Sequence[Any], kept: Sequence[Column]) -> None:
        if self.appends:
            self.changes.note(keys, rows, kept)

    def delete(self, key: Any) -> None:
        super().delete(key)
        # What comes after is put: a segment may say of a whole pane that it is gone.
        self.changes.before[key] = None

    def freeze_as(self, generation: int) -> list[Any]:
        parts = super().freeze_as(generation)
        self.changes = GrownChanges()
        return parts

    def encode(self, parts: Sequence[dict[Any, Any]]) -> Iterator[list[pa.Array]]:
        if not self.appends:
            return super().encode(parts)

        def columns(rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
            keys, kept, before = zip(*rows, strict=True)
            return [self.key.to_array(keys), *grown_rows(self.parts, kept, before, self.info)]

        changes = ((*each, before_in(part, each[0])) for part in parts for each in self.said(part))
        return in_slices(changes, SLICE_ROWS, columns, self.info, self.key)

    def column(self, kept: Sequence[Any]) -> pa.Array:
        return held_rows(self.parts, kept, self.info) if self._are_shared else super().column(kept)


def _is_several_objects(kind: ValueType) -> bool:
    return kind.ddl == PICKLED or pa.types.is_nested(kind.arrow)


def _puts_and_deletes(values: pa.Array) -> pa.Array:
    """What is done with each value: it is put, or where there is none deleted."""
    if not values.null_count:
        return pa.array(np.full(len(values), PUT, np.int8))
    return pa.array(np.where(values.is_null(), DELETE, PUT), pa.int8())

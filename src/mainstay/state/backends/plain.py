"""Tables over anything that keeps something for a key: the least that a backend has to write.

What is kept is read and stored as a whole, and each write is noted as a change. Backends for which
that is too slow have tables of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from mainstay.snapshot.drops import Drops
from mainstay.state.accumulating import Column, accumulating
from mainstay.state.backends.changes import DELETED, after, append_to, decoded, encoded, entries_of
from mainstay.state.backends.folding import fold
from mainstay.state.backends.indexed_spans import IndexedSpans
from mainstay.state.backends.listed_rows import ListedRows
from mainstay.state.backends.pane_index import IndexedPanes
from mainstay.state.columns import has_panes
from mainstay.state.dropping import DroppedPanes, dropped_pairs
from mainstay.state.info import StateInfo
from mainstay.state.keyed import ABSENT, Access, AnyContext, checking, no_none, no_reduction
from mainstay.state.kind import Shape
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

SLICE_ROWS = 1000


class Store(Protocol):
    """Where one state is kept: a value, a list or a dictionary for each key."""

    def read(self, key: Any) -> Any:
        """What is kept for a key, which nobody else changes; None where nothing is."""

    def write(self, key: Any, kept: Any) -> None:
        """Keep this for a key; None where nothing is to be kept."""

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it. It may be written between two steps."""


class PlainTable:
    """What the kinds share."""

    def __init__(self, info: StateInfo, key: ValueType, store: Store) -> None:
        self.info, self.store = info, store
        self.stored = StoredKey.of(key, info.namespace)
        self.key = self.stored.type
        self.read = self.peek = store.read
        self.entries = self.survey = store.entries
        self.changes: dict[Any, Any] = {}

    def bring(self, keys: Sequence[Any]) -> None:
        """Each key is read by itself."""

    def delete(self, key: Any) -> None:
        if self.read(key) is not None:
            self.store.write(key, None)
            self.changes[key] = self.deletion()

    def deletion(self) -> Any:
        """The change that stands for a deletion."""
        return DELETED

    def whole(self, kept: Any) -> Any:
        """The change that stands for all that is kept for a key."""
        return kept

    def mark_all_changed(self) -> None:
        self.changes = {key: self.whole(kept) for key, kept in self.entries()}

    def freeze(self) -> list[Any]:
        part, self.changes = self.changes, {}
        return [part] if part else []

    def encode(self, parts: list[Any]) -> Iterator[list[pa.Array]]:
        return encoded(parts, SLICE_ROWS, self.info, self.key)

    def leftovers(self, parts: list[Any]) -> list[Any]:
        return parts

    def repeats_keys(self, parts: list[Any]) -> bool:
        return False

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        for key, *operation in decoded(rows, self.info, self.stored):
            kept = after(self.read(key), self.info, *operation)
            is_empty = self.info.kind.stored_as in ("list", "map") and not kept
            self.store.write(key, None if is_empty else kept)


class PlainValues(PlainTable):
    """One value per key, or one row of accumulators."""

    def put(self, key: Any, kept: Any) -> None:
        self.store.write(key, kept)
        self.changes[key] = kept

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]:
        return [default if kept is None else kept for kept in map(self.read, keys)]

    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None:
        for key, value in zip(keys, kept, strict=True):
            self.delete(key) if value is None else self.put(key, value)

    def access(self, context: AnyContext, info: StateInfo | None = None) -> Access:
        info = info or self.info
        thaw, function = info.value.thaw or (lambda kept: kept), info.function
        checked, reduced = checking(info, no_none), checking(info, no_reduction)

        def get() -> Any:
            kept = self.read(context.current_key)
            return None if kept is None else thaw(kept)

        def update(value: Any) -> None:
            key = context.current_key
            self.delete(key) if value is None else self.put(key, checked(value))

        def add(value: Any) -> None:
            kept, current = checked(value), get()
            new = kept if current is None else reduced(function(current, thaw(kept)))
            self.put(context.current_key, new)

        return Access(get, update, add)

    def fold(self, keys: pa.Array, partials: Sequence[Column]) -> list[Column]:
        return fold(self, [accumulating(each) for each in self.info.function], keys, partials)


class PlainDropping(PlainTable):
    """What a table that drops panes has more: a segment says which, and nothing of their keys."""

    def __init__(self, info: StateInfo, key: ValueType, store: Store) -> None:
        super().__init__(info, key, store)
        self.dropped = DroppedPanes()

    def freeze(self) -> list[Any]:
        dropped, self.dropped = self.dropped, DroppedPanes()
        return [*([dropped] if dropped else ()), *super().freeze()]

    def mark_all_changed(self) -> None:
        super().mark_all_changed()
        self.dropped = DroppedPanes()

    def encode(self, parts: list[Any]) -> Iterator[list[pa.Array]]:
        said = [{key: kept for key, kept in part.items() if kept is not DELETED} for part in parts]
        return super().encode(said)

    def apply_drops(self, drops: Drops, max_parallelism: int) -> None:
        """Forget what stored drops are of, without making that a change again."""
        pairs = [pair for pair, _ in self.entries()]
        for pair in dropped_pairs(pairs, self.stored, drops, max_parallelism):
            self.store.write(pair, None)


class PlainPanes(IndexedPanes, PlainDropping, PlainValues):
    """Rows of accumulators by key and pane."""

    def __init__(self, info: StateInfo, key: ValueType, store: Store) -> None:
        super().__init__(info, key, store)
        self.parts = [accumulating(each) for each in info.function or ()]

    def fold_pairs(self, pairs: pa.Array, partials: Sequence[Column]) -> list[Column]:
        return fold(self, self.parts, pairs, partials)

    def freeze(self) -> list[Any]:
        self.segment += 1
        return super().freeze()

    def apply(self, rows: pa.Table) -> None:
        super().apply(rows)
        self.forget_index()

    def apply_drops(self, drops: Drops, max_parallelism: int) -> None:
        super().apply_drops(drops, max_parallelism)
        self.forget_index()

    def unsay(self, pair: Any) -> None:
        self.store.write(pair, None)
        self.changes.pop(pair, None)

    def is_deleted(self, pair: Any) -> bool:
        return pair in self.changes


class PlainSpans(IndexedSpans, PlainValues):
    """Rows of accumulators by key and start."""

    def __init__(self, info: StateInfo, key: ValueType, store: Store) -> None:
        super().__init__(info, key, store)
        self.parts = [accumulating(each) for each in info.function or ()]

    def apply(self, rows: pa.Table) -> None:
        super().apply(rows)
        self.forget_index()


class PlainLists(PlainTable):
    """A list per key."""

    def put(self, key: Any, kept: list[Any]) -> None:
        self.store.write(key, kept)
        self.changes[key] = self.whole(kept)

    def append(self, key: Any, kept: list[Any]) -> None:
        self.store.write(key, [*(self.read(key) or ()), *kept])
        append_to(self.changes, key, kept)

    def whole(self, kept: Any) -> Any:
        return True, list(kept)


class PlainRows(ListedRows, PlainDropping, PlainLists):
    """A list of rows per key and pane."""

    def apply(self, rows: pa.Table) -> None:
        super().apply(rows)
        self.look_again()

    def apply_drops(self, drops: Drops, max_parallelism: int) -> None:
        super().apply_drops(drops, max_parallelism)
        self.look_again()


class PlainMaps(PlainTable):
    """A map per key."""

    def deletion(self) -> Any:
        return True, {}

    def entry(self, key: Any, map_key: Any) -> Any:
        return (self.read(key) or {}).get(map_key, ABSENT)

    def has_entry(self, key: Any, map_key: Any) -> bool:
        return self.entry(key, map_key) is not ABSENT

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None:
        self.store.write(key, {**(self.read(key) or {}), map_key: kept})
        entries_of(self.changes, key)[map_key] = kept

    def remove_entry(self, key: Any, map_key: Any) -> None:
        entries = dict(self.read(key) or {})
        if entries.pop(map_key, ABSENT) is not ABSENT:
            self.store.write(key, entries or None)
            entries_of(self.changes, key)[map_key] = DELETED

    def whole(self, kept: Any) -> Any:
        return False, dict(kept)


TABLES: dict[Shape, type[PlainTable]] = {
    "value": PlainValues,
    "column": PlainValues,
    "list": PlainLists,
    "map": PlainMaps,
    "columns": PlainValues,
    "rows": PlainRows,
    "spans": PlainSpans,
}


def plain_table(info: StateInfo, key: ValueType, store: Store) -> PlainTable:
    """The table of a state over its store."""
    if has_panes(info):
        return PlainPanes(info, key, store)
    return TABLES[info.kind.shape](info, key, store)

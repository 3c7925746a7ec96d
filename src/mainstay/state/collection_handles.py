"""Lists and maps of a key, as a function sees them: handles bound to the key of the current row.

A list is read as a whole and appended to without being read. A map is asked for entries, and is a
dictionary in every other respect that costs no more there than here: what a call costs in each
backend is in docs/state.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mainstay.errors import StateTypeError
from mainstay.schema.transpose import shown
from mainstay.state.freezing import NAN
from mainstay.state.hints import Hinting
from mainstay.state.info import StateInfo
from mainstay.state.keyed import (
    ABSENT,
    AnyContext,
    ListTable,
    MapTable,
    check_pairs,
    frozen_elements,
    frozen_keys,
    named,
    no_none,
)
from mainstay.state.values import PICKLED


class ListHandle(Hinting):
    """Stands in for a ``ListState``. A key of which nothing is kept has an empty list."""

    __slots__ = ("_context", "_freeze", "_table", "_thaw", "info")

    def __init__(self, info: StateInfo, table: ListTable, context: AnyContext) -> None:
        self.info = info
        self._context = context
        self._table = table
        self._freeze = info.value.freeze
        self._thaw = info.value.thaw

    def seen_as(self, info: StateInfo) -> ListHandle:
        """The same state for one who gives and takes its elements in another form."""
        return ListHandle(info, self._table, self._context)

    def get(self) -> list[Any]:
        kept = self._table.read(self._context.current_key)
        if kept is None:
            return []
        thaw = self._thaw
        return list(kept) if thaw is None else [thaw(item) for item in kept]

    def add(self, value: Any) -> None:
        try:
            kept = no_none() if value is None else self._freeze(value)
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__
        self._table.append(self._context.current_key, [kept])

    def extend(self, values: Iterable[Any]) -> None:
        frozen = frozen_elements(self.info, values)
        if frozen:
            self._table.append(self._context.current_key, frozen)

    def update(self, values: Iterable[Any] | None) -> None:
        self._put(
            self._context.current_key, frozen_elements(self.info, () if values is None else values)
        )

    def clear(self) -> None:
        self._table.delete(self._context.current_key)

    def get_many(self, keys: Iterable[Any]) -> list[list[Any]]:
        """The list of each key; empty where nothing is kept."""
        frozen = frozen_keys(self.info, self._context, keys)
        self._table.bring(frozen)
        found = (self._table.read(key) or () for key in frozen)
        thaw = self._thaw
        if thaw is None:
            return [list(kept) for kept in found]
        return [[thaw(item) for item in kept] for kept in found]

    def put_many(self, keys: Iterable[Any], lists: Iterable[Iterable[Any] | None]) -> None:
        """A new list for each key; None or an empty one clears it."""
        # All of it is checked before the first is stored: all are stored, or none.
        frozen = frozen_keys(self.info, self._context, keys)
        kept = [frozen_elements(self.info, () if values is None else values) for values in lists]
        check_pairs(self.info, frozen, kept)
        for key, elements in zip(frozen, kept, strict=True):
            self._put(key, elements)

    def _put(self, key: Any, kept: list[Any]) -> None:
        if kept:
            self._table.put(key, kept)
        else:
            self._table.delete(key)


class MapHandle(Hinting):
    """Stands in for a ``MapState``: a dictionary of the current key's entries.

    Equality and identity are those of the handle, not of the entries: compare ``dict(state)``.
    """

    __slots__ = ("_context", "_freeze", "_freeze_key", "_table", "_thaw", "_thaw_key", "info")

    def __init__(self, info: StateInfo, table: MapTable, context: AnyContext) -> None:
        assert info.map_key is not None
        self.info = info
        self._context = context
        self._table = table
        self._freeze = info.value.freeze
        self._thaw = info.value.thaw
        undeclared = info.map_key.ddl == PICKLED
        self._freeze_key = _freeze_undeclared_key if undeclared else info.map_key.freeze
        self._thaw_key = info.map_key.thaw

    def seen_as(self, info: StateInfo) -> MapHandle:
        """The same state for one who gives and takes its entries in another form."""
        return MapHandle(info, self._table, self._context)

    def _frozen_key(self, key: Any) -> Any:
        try:
            return no_none() if key is None else self._freeze_key(key)
        except StateTypeError as error:
            raise named(self.info, error, "a map key: ") from error.__cause__

    def _frozen(self, value: Any) -> Any:
        try:
            return None if value is None else self._freeze(value)
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__

    def _thawed(self, kept: Any) -> Any:
        return kept if self._thaw is None or kept is None else self._thaw(kept)

    # ------------------------------------------------------------ one entry

    def get(self, key: Any, default: Any = None) -> Any:
        kept = self._table.entry(self._context.current_key, self._frozen_key(key))
        return default if kept is ABSENT else self._thawed(kept)

    def put(self, key: Any, value: Any) -> None:
        try:
            kept = None if value is None else self._freeze(value)
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__
        self._table.put_entry(self._context.current_key, self._frozen_key(key), kept)

    def remove(self, key: Any) -> None:
        self._table.remove_entry(self._context.current_key, self._frozen_key(key))

    def contains(self, key: Any) -> bool:
        return self._table.has_entry(self._context.current_key, self._frozen_key(key))

    __contains__ = contains
    __setitem__ = put

    def __getitem__(self, key: Any) -> Any:
        kept = self._table.entry(self._context.current_key, self._frozen_key(key))
        if kept is ABSENT:
            raise self._absent(key)
        return self._thawed(kept)

    def __delitem__(self, key: Any) -> None:
        frozen = self._frozen_key(key)
        if not self._table.has_entry(self._context.current_key, frozen):
            raise self._absent(key)
        self._table.remove_entry(self._context.current_key, frozen)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove an entry and return what it held; a default is for where there is none."""
        if len(default) > 1:
            raise TypeError(f"pop() takes a key and one default, and was given {len(default)}")
        frozen = self._frozen_key(key)
        kept = self._table.entry(self._context.current_key, frozen)
        if kept is ABSENT:
            if default:
                return default[0]
            raise self._absent(key)
        self._table.remove_entry(self._context.current_key, frozen)
        return self._thawed(kept)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """What an entry holds, after putting the default where there was none."""
        if key not in self:
            self.put(key, default)
        return self[key]

    def _absent(self, key: Any) -> KeyError:
        return KeyError(
            f"state {self.info.name!r}: the map of key {shown(self._context.current_key)} has no "
            f"entry {shown(key)}. Ask with get(), which gives None or a default."
        )

    # ------------------------------------------------------------ all entries

    # They are copied at the call, so that a loop over them may change them.

    def items(self) -> Iterator[tuple[Any, Any]]:
        found = self._table.read(self._context.current_key)
        entries = () if found is None else tuple(found.items())
        thaw_key = self._thaw_key
        return (
            (key if thaw_key is None else thaw_key(key), self._thawed(kept))
            for key, kept in entries
        )

    def keys(self) -> Iterator[Any]:
        found = self._table.read(self._context.current_key)
        entries = () if found is None else tuple(found)
        return iter(entries) if self._thaw_key is None else map(self._thaw_key, entries)

    __iter__ = keys

    def values(self) -> Iterator[Any]:
        found = self._table.read(self._context.current_key)
        return map(self._thawed, () if found is None else tuple(found.values()))

    def __len__(self) -> int:
        found = self._table.read(self._context.current_key)
        return 0 if found is None else len(found)

    def update(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /, **more: Any
    ) -> None:
        """Put entries, as ``update`` of a dictionary does; those that are not named stay."""
        try:
            given = dict(entries, **more)
        except (TypeError, ValueError) as error:
            raise StateTypeError(
                f"state {self.info.name!r}: update() takes a dict or pairs of a key and a value, "
                f"not {shown(entries)}. To empty the map, call clear()."
            ) from error
        # All of it is checked before the first is stored: all are stored, or none.
        frozen = [(self._frozen_key(key), self._frozen(value)) for key, value in given.items()]
        for key, kept in frozen:
            self._table.put_entry(self._context.current_key, key, kept)

    def clear(self) -> None:
        self._table.delete(self._context.current_key)

    def get_many(self, keys: Iterable[Any]) -> list[dict[Any, Any]]:
        """The entries of each key, as a dictionary; empty where nothing is kept."""
        frozen = frozen_keys(self.info, self._context, keys)
        self._table.bring(frozen)
        return [self._as_dict(self._table.read(key)) for key in frozen]

    def _as_dict(self, found: Any) -> dict[Any, Any]:
        thaw_key = self._thaw_key
        entries = () if found is None else found.items()
        return {
            (key if thaw_key is None else thaw_key(key)): self._thawed(kept)
            for key, kept in entries
        }

    def put_many(self, keys: Iterable[Any], maps: Iterable[Mapping[Any, Any]]) -> None:
        """Put the entries of a dictionary into the map of each key; other entries stay."""
        frozen = frozen_keys(self.info, self._context, keys)
        kept = [
            [(self._frozen_key(key), self._frozen(value)) for key, value in entries.items()]
            for entries in maps
        ]
        check_pairs(self.info, frozen, kept)
        for key, entries in zip(frozen, kept, strict=True):
            for map_key, value in entries:
                self._table.put_entry(key, map_key, value)


def _freeze_undeclared_key(key: Any) -> Any:
    """A map key of no declared type. Keys that are equal to Python must be equal in storage."""
    kind = type(key)
    if kind in (str, bytes, int):
        return key
    if kind is bool or (kind is float and key.is_integer()):
        return int(key)
    if kind is float:
        return NAN if key != key else key
    raise StateTypeError(
        f"{shown(key)} ({kind.__name__}) needs a declared key type, as in "
        'MapState("struct<a:int,b:string>", ...).'
    )

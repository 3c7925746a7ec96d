"""Keyed state as a function sees it: handles bound to the key of the row at hand.

The operator sets ``context.key`` once per row; every handle of the operator reads it there.
Handles check and freeze what they are given and thaw what they return; where the values live is
the table's concern (see ``backends``).

This is a hot file: a get and an update together must stay well below a microsecond
(benchmarks/state_access.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from mainstay.errors import StateTypeError
from mainstay.state.declaration import StateInfo
from mainstay.state.values import Pickled


class KeyContext:
    """The key of the row at hand, shared by an operator and its handles."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None


class ValueTable(Protocol):
    """What a backend offers for one value per key. ``read`` gives None where nothing is kept."""

    read: Callable[[Any], Any]

    def put(self, key: Any, kept: Any) -> None: ...
    def delete(self, key: Any) -> None: ...


class ListTable(Protocol):
    """What a backend offers for a list per key. What ``read`` gives must not be changed."""

    read: Callable[[Any], Any]

    def put(self, key: Any, kept: list[Any]) -> None: ...
    def append(self, key: Any, kept: list[Any]) -> None: ...
    def delete(self, key: Any) -> None: ...


class MapTable(Protocol):
    """What a backend offers for a map per key. What ``read`` gives must not be changed."""

    read: Callable[[Any], Any]

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None: ...
    def remove_entry(self, key: Any, map_key: Any) -> None: ...
    def delete(self, key: Any) -> None: ...


class ValueHandle:
    """Stands in for a ``ValueState``."""

    __slots__ = ("_context", "_freeze", "_read", "_table", "_thaw", "info")

    def __init__(self, info: StateInfo, table: ValueTable, context: KeyContext) -> None:
        self.info = info
        self._context = context
        self._table = table
        self._read = table.read
        self._freeze = info.value.freeze
        self._thaw = info.value.thaw

    def get(self) -> Any:
        kept = self._read(self._context.key)
        if self._thaw is None or kept is None:
            return kept
        return self._thaw(kept)

    def update(self, value: Any) -> None:
        if value is None:
            self._table.delete(self._context.key)
        else:
            self._table.put(self._context.key, self._freeze(value))

    def clear(self) -> None:
        self._table.delete(self._context.key)

    def get_many(self, keys: Iterable[Any]) -> list[Any]:
        found = [self._read(key) for key in keys]
        thaw = self._thaw
        return found if thaw is None else [v if v is None else thaw(v) for v in found]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        put, delete, freeze = self._table.put, self._table.delete, self._freeze
        for key, value in zip(keys, values, strict=True):
            if value is None:
                delete(key)
            else:
                put(key, freeze(value))


class ReducingHandle(ValueHandle):
    """Stands in for a ``ReducingState``."""

    __slots__ = ("_function",)

    def __init__(self, info: StateInfo, table: ValueTable, context: KeyContext) -> None:
        super().__init__(info, table, context)
        self._function = info.function

    def add(self, value: Any) -> None:
        if value is None:
            raise _no_none(self.info)
        current = self.get()
        self.update(value if current is None else self._function(current, value))


class AggregatingHandle(ValueHandle):
    """Stands in for an ``AggregatingState``; what the table keeps is the accumulator."""

    __slots__ = ("_function",)

    def __init__(self, info: StateInfo, table: ValueTable, context: KeyContext) -> None:
        super().__init__(info, table, context)
        self._function = info.function

    def add(self, value: Any) -> None:
        accumulator = super().get()
        if accumulator is None:
            accumulator = self._function.create()
        # An accumulator changed in place may come back as None from a function written that way.
        changed = self._function.add(accumulator, value)
        self.update(accumulator if changed is None else changed)

    def get(self) -> Any:
        accumulator = super().get()
        return None if accumulator is None else self._function.result(accumulator)


class ListHandle:
    """Stands in for a ``ListState``."""

    __slots__ = ("_context", "_freeze", "_table", "_thaw", "info")

    def __init__(self, info: StateInfo, table: ListTable, context: KeyContext) -> None:
        self.info = info
        self._context = context
        self._table = table
        self._freeze = info.value.freeze
        self._thaw = info.value.thaw

    def _frozen(self, values: Iterable[Any]) -> list[Any]:
        values = list(values)
        if any(value is None for value in values):
            raise _no_none(self.info)
        freeze = self._freeze
        return [freeze(value) for value in values]

    def get(self) -> list[Any] | None:
        kept = self._table.read(self._context.key)
        if kept is None:
            return None
        thaw = self._thaw
        return list(kept) if thaw is None else [thaw(item) for item in kept]

    def add(self, value: Any) -> None:
        self._table.append(self._context.key, self._frozen((value,)))

    def extend(self, values: Iterable[Any]) -> None:
        frozen = self._frozen(values)
        if frozen:
            self._table.append(self._context.key, frozen)

    def update(self, values: Iterable[Any] | None) -> None:
        frozen = self._frozen(values or ())
        if frozen:
            self._table.put(self._context.key, frozen)
        else:
            self._table.delete(self._context.key)

    def clear(self) -> None:
        self._table.delete(self._context.key)


class MapHandle:
    """Stands in for a ``MapState``."""

    __slots__ = ("_context", "_freeze", "_freeze_key", "_table", "_thaw", "_thaw_key", "info")

    def __init__(self, info: StateInfo, table: MapTable, context: KeyContext) -> None:
        assert info.map_key is not None
        self.info = info
        self._context = context
        self._table = table
        self._freeze = info.value.freeze
        self._thaw = info.value.thaw
        self._freeze_key = info.map_key.freeze
        self._thaw_key = info.map_key.thaw

    def _frozen_key(self, key: Any) -> Any:
        if key is None:
            raise _no_none(self.info)
        frozen = self._freeze_key(key)
        if isinstance(frozen, Pickled):
            raise StateTypeError(
                f"state {self.info.name!r}: a map key of type {type(key).__name__} needs a "
                'declared key type, as in MapState("struct<a:int,b:string>", ...).'
            )
        return frozen

    def _thawed(self, kept: Any) -> Any:
        return kept if self._thaw is None or kept is None else self._thaw(kept)

    def get(self, key: Any, default: Any = None) -> Any:
        entries = self._table.read(self._context.key)
        key = self._frozen_key(key)
        return default if entries is None or key not in entries else self._thawed(entries[key])

    def put(self, key: Any, value: Any) -> None:
        kept = None if value is None else self._freeze(value)
        self._table.put_entry(self._context.key, self._frozen_key(key), kept)

    def remove(self, key: Any) -> None:
        self._table.remove_entry(self._context.key, self._frozen_key(key))

    def contains(self, key: Any) -> bool:
        entries = self._table.read(self._context.key)
        return entries is not None and self._frozen_key(key) in entries

    def items(self) -> Iterator[tuple[Any, Any]]:
        # A copy, so that a loop over the entries may change them.
        entries = dict(self._table.read(self._context.key) or ())
        thaw_key = self._thaw_key
        for key, kept in entries.items():
            yield (key if thaw_key is None else thaw_key(key)), self._thawed(kept)

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def clear(self) -> None:
        self._table.delete(self._context.key)


def _no_none(info: StateInfo) -> StateTypeError:
    return StateTypeError(
        f"state {info.name!r} ({info.kind}) was given None; leave the call out instead."
    )


HANDLES: dict[str, Callable[[StateInfo, Any, KeyContext], Any]] = {
    "value": ValueHandle,
    "reducing": ReducingHandle,
    "aggregating": AggregatingHandle,
    "list": ListHandle,
    "map": MapHandle,
}

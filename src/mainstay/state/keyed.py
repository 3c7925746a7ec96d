"""Keyed state as a function sees it: handles bound to the key of the row at hand.

The operator sets ``context.key`` once per row; every handle of the operator reads it there.
Handles check and freeze what they are given and thaw what they return; where the values live is
the table's concern (see ``backends``).

This is a hot file: a get and an update together must stay well below half a microsecond
(benchmarks/state_access.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from mainstay.errors import MainstayError, StateTypeError
from mainstay.schema.transpose import shown
from mainstay.state.columns import ColumnsHandle
from mainstay.state.declaration import StateInfo
from mainstay.state.freezing import NAN
from mainstay.state.values import PICKLED, ValueType


class NoKey:
    """Stands where there is no key. Looking anything up by it says so, at no cost elsewhere."""

    def __hash__(self) -> int:
        raise MainstayError(
            "keyed state was used where there is no key: only a row has one, and only until its "
            "call of process() returns. open(), close(), on_snapshot_complete(), other threads and "
            "broadcast rows have none, and a function over batches uses get_many and put_many. "
            "Keep what belongs to no key in an OperatorListState."
        )


NO_KEY = NoKey()
ABSENT = object()
"""Stands where a map has no entry: what an entry holds may be None."""


class KeyContext:
    """The key of the row at hand, shared by an operator and its handles.

    ``key_type`` is set by the backend; the operator sets keys that are frozen already. ``now_us``
    is the wall clock in microseconds, by which states with a time to live go.
    """

    __slots__ = ("key", "key_type", "now_us")

    def __init__(self) -> None:
        self.key: Any = NO_KEY
        self.key_type: ValueType | None = None
        self.now_us: Callable[[], int] = _no_clock


class Access(NamedTuple):
    """The functions of a value state for the key at hand, ready to be called.

    ``add`` folds a value in with the function of the state, where it has one.
    """

    get: Callable[[], Any]
    update: Callable[[Any], None]
    add: Callable[[Any], None]


class ValueTable(Protocol):
    """What a backend offers for one value per key. ``read`` gives None where nothing is kept."""

    read: Callable[[Any], Any]

    def access(self, context: KeyContext) -> Access: ...
    def delete(self, key: Any) -> None: ...
    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]: ...
    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None: ...


class ListTable(Protocol):
    """What a backend offers for a list per key. What ``read`` gives must not be changed."""

    read: Callable[[Any], Any]

    def put(self, key: Any, kept: list[Any]) -> None: ...
    def append(self, key: Any, kept: list[Any]) -> None: ...
    def delete(self, key: Any) -> None: ...


class MapTable(Protocol):
    """What a backend offers for a map per key. What ``read`` gives must not be changed.

    ``entry`` gives ``ABSENT`` where there is none. To ask whether there is one does not count as a
    read of it.
    """

    read: Callable[[Any], Any]

    def entry(self, key: Any, map_key: Any) -> Any: ...
    def has_entry(self, key: Any, map_key: Any) -> bool: ...

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None: ...
    def remove_entry(self, key: Any, map_key: Any) -> None: ...
    def delete(self, key: Any) -> None: ...


class ValueHandle:
    """Stands in for a ``ValueState``. ``get`` and ``update`` are the backend's own functions."""

    __slots__ = ("_context", "_table", "get", "info", "update")

    def __init__(self, info: StateInfo, table: ValueTable, context: KeyContext) -> None:
        self.info = info
        self._context = context
        self._table = table
        self.get, self.update, _ = table.access(context)

    def clear(self) -> None:
        self._table.delete(self._context.key)

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        frozen, thaw = self._frozen_keys(keys), self.info.value.thaw
        if thaw is None:
            return self._table.read_many(frozen, default)
        found = self._table.read_many(frozen, None)
        return [default if kept is None else thaw(kept) for kept in found]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        # All of it is checked before the first is stored: all are stored, or none.
        frozen, kept = self._frozen_keys(keys), self._frozen_values(values)
        if len(frozen) != len(kept):
            raise StateTypeError(
                f"state {self.info.name!r}: put_many() was given {len(frozen)} keys and "
                f"{len(kept)} values. Give one value for each key."
            )
        self._table.put_many(frozen, kept)

    def _frozen_keys(self, keys: Iterable[Any]) -> list[Any]:
        key_type = self._context.key_type
        assert key_type is not None
        try:
            return key_type.freeze_many(keys)
        except StateTypeError as error:
            raise named(self.info, error, "a key: ") from error.__cause__

    def _frozen_values(self, values: Iterable[Any]) -> list[Any]:
        try:
            return self.info.value.freeze_many(values)
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__


class ReducingHandle(ValueHandle):
    """Stands in for a ``ReducingState``.

    The function is given both values in the form that ``get`` returns, as copies of its own.
    """

    __slots__ = ("add",)

    def __init__(self, info: StateInfo, table: ValueTable, context: KeyContext) -> None:
        super().__init__(info, table, context)
        self.add = table.access(context).add


class AggregatingHandle(ValueHandle):
    """Stands in for an ``AggregatingState``; what the table keeps is the accumulator."""

    __slots__ = ("_accumulator", "_function")

    def __init__(self, info: StateInfo, table: ValueTable, context: KeyContext) -> None:
        super().__init__(info, table, context)
        self._function = info.function
        self._accumulator = self.get
        self.get = self._result

    def add(self, value: Any) -> None:
        accumulator = self._accumulator()
        if accumulator is None:
            accumulator = self._created()
        # An accumulator changed in place may come back as None from a function written that way.
        changed = self._function.add(accumulator, value)
        self.update(accumulator if changed is None else changed)

    def _created(self) -> Any:
        """A new accumulator, in the form and as free of aliases as one that was stored."""
        created = self._function.create()
        value = self.info.value
        if value.thaw is None or created is None:
            return created
        try:
            return value.thaw(value.freeze(created))
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__

    def _result(self) -> Any:
        accumulator = self._accumulator()
        return None if accumulator is None else self._function.result(accumulator)

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        result = self._function.result
        return [default if found is None else result(found) for found in super().get_many(keys)]


class ListHandle:
    """Stands in for a ``ListState``."""

    __slots__ = ("_context", "_freeze", "_table", "_thaw", "info")

    def __init__(self, info: StateInfo, table: ListTable, context: KeyContext) -> None:
        self.info = info
        self._context = context
        self._table = table
        self._freeze = info.value.freeze
        self._thaw = info.value.thaw

    def get(self) -> list[Any] | None:
        kept = self._table.read(self._context.key)
        if kept is None:
            return None
        thaw = self._thaw
        return list(kept) if thaw is None else [thaw(item) for item in kept]

    def add(self, value: Any) -> None:
        try:
            kept = no_none() if value is None else self._freeze(value)
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__
        self._table.append(self._context.key, [kept])

    def extend(self, values: Iterable[Any]) -> None:
        frozen = frozen_elements(self.info, values)
        if frozen:
            self._table.append(self._context.key, frozen)

    def update(self, values: Iterable[Any] | None) -> None:
        frozen = frozen_elements(self.info, () if values is None else values)
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
        undeclared = info.map_key.ddl == PICKLED
        self._freeze_key = _freeze_undeclared_key if undeclared else info.map_key.freeze
        self._thaw_key = info.map_key.thaw

    def _frozen_key(self, key: Any) -> Any:
        try:
            return no_none() if key is None else self._freeze_key(key)
        except StateTypeError as error:
            raise named(self.info, error, "a map key: ") from error.__cause__

    def _thawed(self, kept: Any) -> Any:
        return kept if self._thaw is None or kept is None else self._thaw(kept)

    def get(self, key: Any, default: Any = None) -> Any:
        kept = self._table.entry(self._context.key, self._frozen_key(key))
        return default if kept is ABSENT else self._thawed(kept)

    def put(self, key: Any, value: Any) -> None:
        try:
            kept = None if value is None else self._freeze(value)
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__
        self._table.put_entry(self._context.key, self._frozen_key(key), kept)

    def remove(self, key: Any) -> None:
        self._table.remove_entry(self._context.key, self._frozen_key(key))

    def contains(self, key: Any) -> bool:
        return self._table.has_entry(self._context.key, self._frozen_key(key))

    # The entries are copied at the call, so that a loop over them may change them.

    def items(self) -> Iterator[tuple[Any, Any]]:
        entries = tuple((self._table.read(self._context.key) or {}).items())
        thaw_key = self._thaw_key
        return (
            (key if thaw_key is None else thaw_key(key), self._thawed(kept))
            for key, kept in entries
        )

    def keys(self) -> Iterator[Any]:
        entries = tuple(self._table.read(self._context.key) or ())
        return iter(entries) if self._thaw_key is None else map(self._thaw_key, entries)

    def values(self) -> Iterator[Any]:
        entries = self._table.read(self._context.key) or {}
        return map(self._thawed, tuple(entries.values()))

    def clear(self) -> None:
        self._table.delete(self._context.key)


def frozen_elements(info: StateInfo, values: Iterable[Any]) -> list[Any]:
    """The elements of a list state in the form that is kept."""
    if isinstance(values, str | bytes | bytearray | Mapping):
        raise StateTypeError(
            f"state {info.name!r}: {shown(values)} ({type(values).__name__}) is not a list of "
            "elements. Give a list, or add() it as one element."
        )
    freeze = info.value.freeze
    try:
        return [no_none() if value is None else freeze(value) for value in values]
    except StateTypeError as error:
        raise named(info, error) from error.__cause__


def named(info: StateInfo, error: StateTypeError, what: str = "") -> StateTypeError:
    """The error of a type, which knows the value, with the name of the state."""
    return StateTypeError(f"state {info.name!r}: {what}{error}")


def _no_clock() -> NoReturn:
    raise MainstayError("a state with a time to live was opened where there is no clock.")


def checking(info: StateInfo, refuse: Callable[[], NoReturn]) -> Callable[[Any], Any]:
    """A function that freezes a value of a state and refuses None, with the state's name."""
    freeze = info.value.freeze

    def checked(value: Any) -> Any:
        try:
            return refuse() if value is None else freeze(value)
        except StateTypeError as error:
            raise named(info, error) from error.__cause__

    return checked


def no_none() -> NoReturn:
    raise StateTypeError("None cannot be stored here; leave the call out instead.")


def no_reduction() -> NoReturn:
    raise StateTypeError(
        "its function returned None. Return the reduced value, also where it was changed in place."
    )


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


HANDLES: dict[str, Callable[[StateInfo, Any, KeyContext], Any]] = {
    "value": ValueHandle,
    "reducing": ReducingHandle,
    "aggregating": AggregatingHandle,
    "list": ListHandle,
    "map": MapHandle,
    "columns": ColumnsHandle,
}

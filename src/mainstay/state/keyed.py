"""Keyed state as a function sees it: handles bound to the key of the current row.

The operator sets ``context.current_key`` once per row; every handle of the operator reads it there.
Handles check and freeze what they are given and thaw what they return; where the values live is
the table's concern (see ``backends``).

This is a hot file: a get and an update together must stay well below half a microsecond
(benchmarks/state_access.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, TypeAlias

import pyarrow as pa

from mainstay.errors import MainstayError, StateTypeError
from mainstay.schema.transpose import shown
from mainstay.state.hints import Hinting
from mainstay.state.info import StateInfo
from mainstay.state.stored_key import pair_type
from mainstay.state.values import ValueType

_WHO_HAS_A_KEY = (
    "only a row has one, and only until its call of process() returns. open(), close(), "
    "on_snapshot() and its like, other threads and broadcast rows have none"
)


class NoKey:
    """Stands where there is no key. Whatever is done with it says so, at no cost elsewhere."""

    def __hash__(self) -> int:
        raise MainstayError(
            f"keyed state was used where there is no key: {_WHO_HAS_A_KEY}, and a function over "
            "batches uses get_many and put_many. Keep what belongs to no key in an "
            "OperatorListState."
        )

    def _refuse(self, *_: Any) -> NoReturn:
        raise MainstayError(
            f"ctx.key was used where there is no key: {_WHO_HAS_A_KEY}, nor has a stream without "
            "key_by(). A function over batches finds the keys in batch.keys; elsewhere use "
            "key_by() with a KeyedProcess."
        )

    __repr__ = __str__ = __format__ = __bool__ = __eq__ = __len__ = __iter__ = _refuse
    __getattr__ = __getitem__ = __add__ = __radd__ = __mod__ = __lt__ = __gt__ = _refuse


class NoNamespace:
    """Stands where no namespace was entered, and says so where it is looked up."""

    def __hash__(self) -> int:
        raise MainstayError(
            "a state with a namespace was used before one was entered. The operator that declares "
            "it calls context.namespaced.enter(namespace) first."
        )


NO_KEY = NoKey()
NO_NAMESPACE = NoNamespace()
ABSENT = object()
"""Stands where a map has no entry: what an entry holds may be None."""


class KeyContext:
    """The key of the current row, shared by an operator and its handles.

    ``key_type`` is set by the backend; the operator sets a ``current_key`` that is frozen already.
    ``now_us`` is the wall clock in microseconds, by which states with a time to live go.
    An operator whose slices last no time sets ``held_us`` meanwhile, which ``now_us`` gives then.
    ``namespaced`` stands for it in the handles of states with a namespace.
    """

    __slots__ = ("current_key", "held_us", "key_type", "namespaced", "now_us")

    def __init__(self) -> None:
        self.current_key: Any = NO_KEY
        self.key_type: ValueType | None = None
        self.now_us: Callable[[], int] = _no_clock
        self.held_us: int | None = None
        self.namespaced = NamespacedContext(self)


class NamespacedContext:
    """The key of the current row and a namespace, as one key: the pair.

    The pair is made when it is asked for, so that it never belongs to an earlier row, and so that
    states without a namespace pay nothing for it.
    """

    __slots__ = ("_context", "namespace")

    def __init__(self, context: KeyContext) -> None:
        self._context = context
        self.namespace: Any = NO_NAMESPACE

    def enter(self, namespace: Any) -> None:
        """Let handles mean this namespace, which is frozen already, until the next is entered."""
        self.namespace = namespace

    @property
    def current_key(self) -> tuple[Any, Any]:
        return self._context.current_key, self.namespace

    @property
    def key_type(self) -> ValueType | None:
        return self._context.key_type


AnyContext: TypeAlias = KeyContext | NamespacedContext
"""What a handle reads its key from."""


class Access(NamedTuple):
    """The functions of a value state for the current key, ready to be called.

    ``add`` folds a value in with the function of the state, where it has one.
    """

    get: Callable[[], Any]
    update: Callable[[Any], None]
    add: Callable[[Any], None]


class ValueTable(Protocol):
    """What a backend offers for one value per key. ``read`` gives None where nothing is kept.

    ``access`` freezes and thaws as ``info`` says, or else as the state's own declaration does.
    """

    read: Callable[[Any], Any]

    def access(self, context: AnyContext, info: StateInfo | None = None) -> Access: ...
    def delete(self, key: Any) -> None: ...
    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]: ...
    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None: ...
    def entries(self) -> Iterator[tuple[Any, Any]]: ...
    def survey(self) -> Iterator[tuple[Any, Any]]: ...


class ListTable(Protocol):
    """What a backend offers for a list per key. What ``read`` gives must not be changed.

    ``bring`` says that many keys are about to be read.
    """

    read: Callable[[Any], Any]

    def bring(self, keys: Sequence[Any]) -> None: ...
    def put(self, key: Any, kept: list[Any]) -> None: ...
    def append(self, key: Any, kept: list[Any]) -> None: ...
    def delete(self, key: Any) -> None: ...


class MapTable(Protocol):
    """What a backend offers for a map per key. What ``read`` gives must not be changed.

    ``entry`` gives ``ABSENT`` where there is none. To ask whether there is one does not count as a
    read of it, and neither does the length of what ``read`` gives.
    """

    read: Callable[[Any], Any]

    def bring(self, keys: Sequence[Any]) -> None: ...
    def entry(self, key: Any, map_key: Any) -> Any: ...
    def has_entry(self, key: Any, map_key: Any) -> bool: ...

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None: ...
    def remove_entry(self, key: Any, map_key: Any) -> None: ...
    def delete(self, key: Any) -> None: ...


class ValueHandle(Hinting):
    """Stands in for a ``ValueState``. ``get`` and ``update`` are the backend's own functions."""

    arrays: ClassVar[None] = None
    """It has no arrays to give (see ``value_columns``)."""

    __slots__ = ("_context", "_table", "get", "info", "update")

    def __init__(self, info: StateInfo, table: ValueTable, context: AnyContext) -> None:
        self.info = info
        self._context = context
        self._table = table
        self.get, self.update, _ = table.access(context, info)

    def seen_as(self, info: StateInfo) -> ValueHandle:
        """The same state for one who gives and takes its values in another form."""
        return ValueHandle(info, self._table, self._context)

    def clear(self) -> None:
        self._table.delete(self._context.current_key)

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        frozen, thaw = frozen_keys(self.info, self._context, keys), self.info.value.thaw
        if thaw is None:
            return self._table.read_many(frozen, default)
        found = self._table.read_many(frozen, None)
        return [default if kept is None else thaw(kept) for kept in found]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        # All of it is checked before the first is stored: all are stored, or none.
        frozen = frozen_keys(self.info, self._context, keys)
        kept = self._frozen_values(values)
        check_pairs(self.info, frozen, kept)
        self._table.put_many(frozen, kept)

    def column(self, keys: Iterable[Any]) -> pa.Array:
        """What is kept for some keys as a column; null where nothing is."""
        frozen = frozen_keys(self.info, self._context, keys)
        return self.info.value.to_array(self._table.read_many(frozen, None))

    def survey(self) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it, which may be older than what is kept by now, while
        the state is changed between two steps. Not for a state with a time to live."""
        return self._table.survey()

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

    def __init__(self, info: StateInfo, table: ValueTable, context: AnyContext) -> None:
        super().__init__(info, table, context)
        self.add = table.access(context).add


class AggregatingHandle(ValueHandle):
    """Stands in for an ``AggregatingState``; what the table keeps is the accumulator."""

    __slots__ = ("_accumulator", "_function")

    def __init__(self, info: StateInfo, table: ValueTable, context: AnyContext) -> None:
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


def frozen_keys(info: StateInfo, context: AnyContext, keys: Iterable[Any]) -> list[Any]:
    """The keys that a call for many of them names, in the form that is kept."""
    assert context.key_type is not None
    key = context.key_type
    stored_by = key if info.namespace is None else pair_type(key, info.namespace)
    try:
        return stored_by.freeze_many(keys)
    except StateTypeError as error:
        raise named(info, error, "a key: ") from error.__cause__


def check_pairs(
    info: StateInfo, keys: Sequence[Any], values: Sequence[Any], method: str = "put_many"
) -> None:
    """One value for each key, or an error."""
    if len(keys) != len(values):
        raise StateTypeError(
            f"state {info.name!r}: {method}() was given {len(keys)} keys and "
            f"{len(values)} values. Give one value for each key."
        )


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

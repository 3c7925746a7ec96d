"""State declarations: what a job's author writes as class attributes of a function.

::

    class RunningTotal(KeyedProcess):
        total = ReducingState("long", operator.add)
        last_seen = ValueState("timestamp")

A declaration says kind and types. When the job runs, each instance of the function gets a
handle of the same name and methods in its place, bound to the key of the current row; outside
a running job the methods raise, because there is no key.

Types are Spark DDL strings, ``pyspark.sql.types`` or pyarrow types. Without a type the values
are pickled: they can be stored and restored, but neither evolved nor read from SQL.

Every declaration takes ``migrate``, a function that turns a value of an older type into one of this
type when a job is restored (see ``migration``); those of keyed state also take ``ttl``, the time
after which what was written is no longer there (see ``ttl``), and ``queryable=False``: the running
job answers no question about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NoReturn, Protocol

from mainstay.errors import GraphError, MainstayError
from mainstay.own_frames import made_with_own_frames
from mainstay.spelling import did_you_mean, one_of
from mainstay.state.argument_order import check_aggregating, check_reducing
from mainstay.state.freezing import check_map_key
from mainstay.state.info import StateInfo, checked_queryable
from mainstay.state.kind import StateKind
from mainstay.state.kinds import AGGREGATING, LIST, MAP, OPERATOR_LIST, REDUCING, VALUE
from mainstay.state.migration import Migration
from mainstay.state.ttl import Ttl
from mainstay.state.values import ValueType

REDISTRIBUTIONS = ("split", "union", "broadcast")


class AggregateFunction(Protocol):
    """An aggregate of your own, for ``AggregatingState`` and ``ms.udaf``.

    Subclass it, or write an object with these methods. An accumulator may be changed in place and
    None returned. One more method, ``merge(accumulator, other)``, makes one of two accumulators:
    with it ``ms.udaf`` combines rows before they are sent. It must not matter how rows are divided
    among accumulators.
    """

    def create(self) -> Any:
        """An accumulator before the first value."""

    def add(self, accumulator: Any, value: Any) -> Any:
        """The accumulator with a value more."""

    def result(self, accumulator: Any) -> Any:
        """What the accumulator comes to."""


@made_with_own_frames
class StateDeclaration:
    """The common part of all declarations."""

    kind: ClassVar[StateKind]
    keyed: ClassVar[bool] = True
    changed_by: ClassVar[str] = "update(value)"
    """How its value is changed, for messages."""

    def __init__(
        self,
        value_type: Any = None,
        *,
        ttl: str | float | Ttl | None = None,
        migrate: Callable[[Any], Any] | Migration | None = None,
        queryable: bool = True,
    ) -> None:
        self.name = "?"
        self.queryable = checked_queryable(queryable, type(self).__name__)
        self.value_type = ValueType.of(value_type)
        self.ttl = Ttl.of(ttl)
        self.migrate = Migration.of(migrate, self.value_type)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        hidden = None if self.queryable else False
        settings = {"ttl": self.ttl, "migrate": self.migrate, "queryable": hidden}
        rest = "".join(f", {name}={value}" for name, value in settings.items() if value is not None)
        return f"{type(self).__name__}({self._types()}{rest})"

    def _types(self) -> str:
        return repr(self.value_type.ddl)

    def __set__(self, function: Any, value: Any) -> None:
        # There is no __get__, so that reading the attribute finds the handle of the instance.
        if isinstance(value, StateDeclaration):
            # A declaration out of place, which is refused with its own remedy.
            vars(function)[self.name] = value
            return
        raise MainstayError(
            f"{type(function).__name__}.{self.name} is a {type(self).__name__}: assigning to it "
            f"would put a plain value in its place, which belongs to no key and is in no snapshot. "
            f"Write self.{self.name}.{self.changed_by} to change it, self.{self.name}.get() to "
            "read it."
        )

    def info(self) -> StateInfo:
        return StateInfo(
            self.name,
            self.kind,
            self.value_type,
            ttl=self.ttl,
            migrate=self.migrate,
            queryable=self.queryable,
        )

    def _unbound(self, *_: Any) -> NoReturn:
        raise MainstayError(
            f"state {self.name!r} was used outside a running job. State is bound to the key of the "
            "current row: use it inside process(), or test the job with mainstay.testing.run()."
        )


class ValueState(StateDeclaration):
    """One value per key."""

    kind = VALUE

    def get(self) -> Any:
        """The value, or None where nothing is stored."""
        self._unbound()

    def update(self, value: Any) -> None:
        """Store a value; None is the same as :meth:`clear`."""
        self._unbound()

    def clear(self) -> None:
        self._unbound()

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """The values of many keys of the current batch, for functions over batches."""
        self._unbound()

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Store the values of many keys of the current batch; None clears. All or none.

        Both may be lists, numpy arrays or Arrow arrays.
        """
        self._unbound()


class ListState(StateDeclaration):
    """A list per key; appending does not read what is there."""

    kind = LIST
    changed_by = "add(value)"

    def get(self) -> list[Any]:
        """A copy of the list, empty where nothing is stored."""
        self._unbound()

    def add(self, value: Any) -> None:
        self._unbound()

    def extend(self, values: Iterable[Any]) -> None:
        self._unbound()

    def update(self, values: Iterable[Any] | None) -> None:
        """Replace the list; None or an empty one is the same as :meth:`clear`."""
        self._unbound()

    def clear(self) -> None:
        self._unbound()

    def get_many(self, keys: Iterable[Any]) -> list[list[Any]]:
        """The lists of many keys of the current batch, for functions over batches."""
        self._unbound()

    def put_many(self, keys: Iterable[Any], lists: Iterable[Iterable[Any] | None]) -> None:
        """A new list for each of many keys; None or an empty one clears. All or none."""
        self._unbound()


class MapDeclaration(StateDeclaration):
    """The common part of declarations of maps: the type of the entry keys, and the methods."""

    changed_by = "put(key, value)"
    map_key_type: ValueType

    def _keyed_by(self, key_type: Any) -> None:
        self.map_key_type = ValueType.of(key_type)
        check_map_key(self.map_key_type.arrow)

    def _types(self) -> str:
        return f"{self.map_key_type.ddl!r}, {self.value_type.ddl!r}"

    def info(self) -> StateInfo:
        return replace(super().info(), map_key=self.map_key_type)

    def get(self, key: Any, default: Any = None) -> Any:
        self._unbound()

    def put(self, key: Any, value: Any) -> None:
        self._unbound()

    def remove(self, key: Any) -> None:
        self._unbound()

    def contains(self, key: Any) -> bool:
        self._unbound()

    def keys(self) -> Iterator[Any]:
        self._unbound()

    def values(self) -> Iterator[Any]:
        self._unbound()

    def items(self) -> Iterator[tuple[Any, Any]]:
        self._unbound()

    def update(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /, **more: Any
    ) -> None:
        """Put entries, as ``update`` of a dictionary does; those that are not named stay."""
        self._unbound()

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove an entry and return what it held; a default is for where there is none."""
        self._unbound()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """What an entry holds, after putting the default where there was none."""
        self._unbound()

    def __len__(self) -> int:
        self._unbound()

    def __bool__(self) -> bool:
        """A declaration is there, whatever its state will hold; a handle asks its length."""
        return True

    def __iter__(self) -> Iterator[Any]:
        self._unbound()

    def __contains__(self, key: Any) -> bool:
        self._unbound()

    def __getitem__(self, key: Any) -> Any:
        self._unbound()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._unbound()

    def __delitem__(self, key: Any) -> None:
        self._unbound()

    def clear(self) -> None:
        self._unbound()


@made_with_own_frames
class MapState(MapDeclaration):
    """A map per key, read and written entry by entry. Values may be None, entry keys may not.

    It is also a dictionary: ``len``, ``in``, iteration over the keys, ``state[key]``, ``del``.
    """

    kind = MAP

    def __init__(
        self,
        key_type: Any = None,
        value_type: Any = None,
        *,
        ttl: str | float | Ttl | None = None,
        migrate: Callable[[Any], Any] | Migration | None = None,
        queryable: bool = True,
    ) -> None:
        super().__init__(value_type, ttl=ttl, migrate=migrate, queryable=queryable)
        self._keyed_by(key_type)

    def get_many(self, keys: Iterable[Any]) -> list[dict[Any, Any]]:
        """The entries of many keys of the current batch, for functions over batches."""
        self._unbound()

    def put_many(self, keys: Iterable[Any], maps: Iterable[Mapping[Any, Any]]) -> None:
        """Put the entries of a dictionary into the map of each of many keys; others stay."""
        self._unbound()


@made_with_own_frames
class ReducingState(StateDeclaration):
    """One value per key, folded with an associative function as values are added."""

    kind = REDUCING
    changed_by = "add(value)"

    def __init__(
        self,
        value_type: Any,
        function: Callable[[Any, Any], Any],
        *,
        ttl: str | float | Ttl | None = None,
        migrate: Callable[[Any], Any] | Migration | None = None,
        queryable: bool = True,
    ) -> None:
        check_reducing(function)
        super().__init__(value_type, ttl=ttl, migrate=migrate, queryable=queryable)
        self.function = function

    def info(self) -> StateInfo:
        return replace(super().info(), function=self.function)

    def add(self, value: Any) -> None:
        self._unbound()

    def get(self) -> Any:
        self._unbound()

    def clear(self) -> None:
        self._unbound()


@made_with_own_frames
class AggregatingState(StateDeclaration):
    """One accumulator per key; what is added and what is read may be of other types."""

    kind = AGGREGATING
    changed_by = "add(value)"

    def __init__(
        self,
        function: AggregateFunction,
        accumulator: Any = None,
        *,
        ttl: str | float | Ttl | None = None,
        migrate: Callable[[Any], Any] | Migration | None = None,
        queryable: bool = True,
    ) -> None:
        check_aggregating(function)
        super().__init__(accumulator, ttl=ttl, migrate=migrate, queryable=queryable)
        self.function = function

    def info(self) -> StateInfo:
        return replace(super().info(), function=self.function)

    def add(self, value: Any) -> None:
        self._unbound()

    def get(self) -> Any:
        self._unbound()

    def clear(self) -> None:
        self._unbound()


@made_with_own_frames
class OperatorListState(StateDeclaration):
    """A list per subtask, not per key. Its elements are what a rescale moves.

    ``split`` deals the elements out over the new subtasks. ``union`` does too, and shows all of
    them to every subtask until that replaces its list; each is stored by the one that has it.
    ``broadcast`` expects every subtask to hold the same list and gives each a copy.
    The list is copied when a snapshot is taken, which costs time in its length: keep it short.
    """

    kind = OPERATOR_LIST
    changed_by = "add(value)"
    keyed = False

    def __init__(
        self,
        value_type: Any = None,
        redistribute: str = "split",
        *,
        migrate: Callable[[Any], Any] | Migration | None = None,
    ) -> None:
        if redistribute not in REDISTRIBUTIONS:
            raise GraphError(
                f"redistribute={redistribute!r} is unknown; choose one of "
                f"{one_of(REDISTRIBUTIONS)}.{did_you_mean(redistribute, REDISTRIBUTIONS)}"
            )
        super().__init__(value_type, migrate=migrate)
        self.redistribute = redistribute

    def info(self) -> StateInfo:
        return replace(super().info(), redistribute=self.redistribute)

    def get(self) -> list[Any]:
        """A copy of the list, empty where nothing was added."""
        self._unbound()

    def add(self, value: Any) -> None:
        self._unbound()

    def extend(self, values: Iterable[Any]) -> None:
        self._unbound()

    def update(self, values: Iterable[Any] | None) -> None:
        self._unbound()

    def clear(self) -> None:
        self._unbound()

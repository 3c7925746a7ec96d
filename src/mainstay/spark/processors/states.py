"""Spark's state objects over the states of a job.

They are subclasses of Spark's own, whose ``__init__`` wants a socket to a JVM and is not called.
This is a hot file (benchmarks/stateful_processor.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState

from mainstay.errors import StateTypeError
from mainstay.spark.processors.errors import refuse, refuse_value
from mainstay.state.collection_handles import ListHandle, MapHandle
from mainstay.state.keyed import ValueHandle

_EMPTY = (
    "[ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] state {name!r}: a list state holds at least one "
    "element. Call clear() to empty it."
)


class BoundValue(ValueState):
    """The value of the current key. ``handle`` gives values as Spark does, ``kept`` as they are."""

    def __init__(self, handle: ValueHandle, kept: ValueHandle) -> None:
        self._name = handle.info.name
        self._freeze = handle.info.value.freeze
        self._kept = kept.get
        self._store = kept.update
        # Spark's own methods are only replaced by what does exactly their work.
        self.get = handle.get  # type: ignore[method-assign]
        self.clear = handle.clear  # type: ignore[method-assign]

    def exists(self) -> bool:
        return self._kept() is not None

    def update(self, newValue: Any) -> None:
        if newValue is None:
            raise TypeError("None is no value of a state. Call clear() to have none.")
        try:
            kept = self._freeze(newValue)
        except StateTypeError as error:
            refuse_value("updating value state", f"state {self._name!r}: {error}")
        self._store(kept)


class BoundList(ListState):
    """The list of the current key."""

    def __init__(self, handle: ListHandle) -> None:
        self._handle = handle
        self.clear = handle.clear  # type: ignore[method-assign]

    def exists(self) -> bool:
        return bool(self._handle.get())

    def get(self) -> Iterator[Any]:
        return iter(self._handle.get())

    def put(self, newState: Any) -> None:
        self._write(self._handle.update, newState)

    def appendList(self, newState: Any) -> None:
        self._write(self._handle.extend, newState)

    def _write(self, write: Any, values: Any) -> None:
        elements = list(values)
        if not elements:
            refuse("updating value state", _EMPTY.format(name=self._handle.info.name))
        try:
            write(elements)
        except StateTypeError as error:
            refuse_value("updating value state", error)

    def appendValue(self, newState: Any) -> None:
        try:
            self._handle.add(newState)
        except StateTypeError as error:
            refuse_value("updating value state", error)


class BoundMap(MapState):
    """The map of the current key. ``one`` gives values as rows, ``all`` as tuples."""

    def __init__(self, one: MapHandle, all: MapHandle) -> None:
        self._one = one
        self._all = all
        self.iterator = all.items  # type: ignore[method-assign]
        self.keys = all.keys  # type: ignore[method-assign]
        self.values = all.values  # type: ignore[method-assign]
        self.clear = all.clear  # type: ignore[method-assign]

    def exists(self) -> bool:
        return len(self._all) > 0

    def getValue(self, key: Any) -> Any:
        try:
            return self._one.get(key)
        except StateTypeError as error:
            refuse_value("getting value", error)

    def containsKey(self, key: Any) -> bool:
        try:
            return self._one.contains(key)
        except StateTypeError as error:
            refuse_value("checking if map state contains key", error)

    def updateValue(self, key: Any, value: Any) -> None:
        if value is None:
            raise TypeError("None is no value of a map state. Call removeKey(...) to have none.")
        try:
            self._one.put(key, value)
        except StateTypeError as error:
            refuse_value("updating map state value", error)

    def removeKey(self, key: Any) -> None:
        try:
            self._one.remove(key)
        except StateTypeError as error:
            refuse_value("removing key from map state", error)


def _deleted(doing: str) -> Any:
    def refused(self: Any, *_: Any, **__: Any) -> NoReturn:
        refuse(doing, f"state {self.name!r} {self.why}")

    return refused


class _NoState:
    """Has a name, and a reason why it cannot be used."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why


class UnusableValue(_NoState, ValueState):
    exists = _deleted("checking value state exists")
    get = _deleted("getting value state")
    update = _deleted("updating value state")
    clear = _deleted("clearing value state")


class UnusableList(_NoState, ListState):
    exists = get = _deleted("checking value state exists")
    put = appendValue = appendList = _deleted("updating value state")
    clear = _deleted("clearing value state")


class UnusableMap(_NoState, MapState):
    exists = _deleted("checking map state exists")
    getValue = iterator = keys = values = _deleted("getting value")
    containsKey = _deleted("checking if map state contains key")
    updateValue = _deleted("updating map state value")
    removeKey = _deleted("removing key from map state")
    clear = _deleted("clearing map state")


DELETED = "was deleted with deleteIfExists(), and is not there any more."
"""Why a state cannot be used that its program has deleted."""
UNBOUND = (
    "has no key yet: init() declares states, which are used in handleInputRows(), "
    "handleExpiredTimer() and handleInitialState()."
)
"""Why a state cannot be used while the graph is built."""

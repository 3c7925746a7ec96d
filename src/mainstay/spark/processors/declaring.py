"""What a processor declares: its ``init`` is run once when the graph is built, to see it.

So its states are known before the job starts, as those of any other function are.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import cloudpickle
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from mainstay.errors import GraphError, SchemaError, named
from mainstay.runtime.own_states import ChannelStates, HeldStates, TimeStates
from mainstay.schema import parse_type, to_schema
from mainstay.spark.processors import time_modes
from mainstay.spark.processors.errors import refuse
from mainstay.spark.processors.states import (
    DELETED,
    UNBOUND,
    UnusableList,
    UnusableMap,
    UnusableValue,
)
from mainstay.state.freezing import check_map_key
from mainstay.state.info import StateInfo
from mainstay.state.kind import StateKind
from mainstay.state.kinds import LIST, MAP, VALUE
from mainstay.state.ttl import Ttl
from mainstay.state.values import ValueType
from mainstay.tracebacks import place_of

_RESERVED = {
    *("event_timers", "processing_timers", "timeout"),
    *(name for kept in (ChannelStates, HeldStates, TimeStates) for name in vars(kept)),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """The states of a processor, and the names of those that its ``init`` deletes."""

    states: tuple[StateInfo, ...]
    given_up: tuple[str, ...] = ()


class RecordingHandle(StatefulProcessorHandle):
    """Given to ``init`` while the graph is built. It notes what is asked for."""

    def __init__(self, time_mode: str) -> None:
        self._time_mode = time_mode
        self._states: dict[str, StateInfo] = {}
        self._objects: dict[str, Any] = {}
        self._deleted: dict[str, None] = {}

    def declared(self) -> Declared:
        return Declared(tuple(self._states.values()), tuple(self._deleted))

    # ------------------------------------------------------------ what Spark's handle has

    def getValueState(
        self,
        stateName: str,
        schema: Any,
        ttlDurationMs: Any = None,
    ) -> Any:
        doing = "initializing value state"
        return self._note(VALUE, doing, stateName, schema, ttlDurationMs, UnusableValue)

    def getListState(
        self,
        stateName: str,
        schema: Any,
        ttlDurationMs: Any = None,
    ) -> Any:
        doing = "initializing list state"
        return self._note(LIST, doing, stateName, schema, ttlDurationMs, UnusableList)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: Any,
        valueSchema: Any,
        ttlDurationMs: Any = None,
    ) -> Any:
        doing = "initializing map state"
        key = _struct(userKeySchema, doing, stateName, is_map_key=True)
        return self._note(MAP, doing, stateName, valueSchema, ttlDurationMs, UnusableMap, key)

    def deleteIfExists(self, stateName: str) -> None:
        self._deleted[_name(stateName, "deleting state")] = None
        self._states.pop(stateName, None)
        found = self._objects.pop(stateName, None)
        if found is not None:
            found.why = DELETED

    def registerTimer(self, expiryTimestampMs: int) -> None:
        refuse("register timer", _NO_TIMERS_YET)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        refuse("deleting timer", _NO_TIMERS_YET)

    def listTimers(self) -> Any:
        refuse("listing timers", _NO_TIMERS_YET)

    # ------------------------------------------------------------ notes

    def _note(
        self,
        kind: StateKind,
        doing: str,
        name: Any,
        schema: Any,
        ttl_ms: Any,
        unusable: Any,
        map_key: ValueType | None = None,
    ) -> Any:
        _name(name, doing)
        if name in self._states or name in self._deleted:
            how = "deleted" if name in self._deleted else f"a {self._states[name].kind} state"
            refuse(
                doing,
                f"[STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED] state {name!r} already "
                f"exists in this init(): it is {how}. Give each state a name of its own.",
            )
        value = _struct(schema, doing, name)
        ttl = self._ttl(ttl_ms, doing, name)
        self._states[name] = StateInfo(name, kind, value, map_key, ttl=ttl, may_lose_fields=True)
        found = self._objects[name] = unusable(name, UNBOUND)
        return found

    def _ttl(self, ttl_ms: Any, doing: str, name: str) -> Ttl | None:
        if ttl_ms is None or ttl_ms == 0:
            return None
        if not isinstance(ttl_ms, int) or ttl_ms < 0:
            refuse(
                doing,
                f"[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] state {name!r}: "
                f"ttlDurationMs={ttl_ms!r} must be a number of milliseconds above 0.",
            )
        if self._time_mode != time_modes.PROCESSING:
            refuse(
                doing,
                f"[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] state {name!r} has a "
                f"ttlDurationMs, but time_mode is {self._time_mode!r}. A time to live goes by the "
                'clock: time_mode="ProcessingTime".',
            )
        return Ttl(ttl_ms / 1000)


_NO_TIMERS_YET = (
    "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] init() has no key, "
    "and a timer belongs to one. Use timers in handleInputRows() and the other methods."
)


def _name(name: Any, doing: str) -> str:
    is_text = isinstance(name, str)
    if not is_text or not name or name != name.strip() or name == "default" or name[0] == "$":
        refuse(
            doing,
            f"{name!r} is no name of a state: it is a text without blanks around it, does not "
            "begin with $, and is not 'default'.",
        )
    if name in _RESERVED:
        refuse(doing, f"{name!r} is a name that Mainstay itself keeps something under.")
    return str(name)


def _struct(schema: Any, doing: str, name: Any, *, is_map_key: bool = False) -> ValueType:
    """The columns of a state, as a struct."""
    if not isinstance(schema, str | StructType):
        refuse(doing, f"state {name!r}: {schema!r} is no schema: give a StructType or DDL.")
    if isinstance(schema, str) and _is_type(schema):
        refuse(
            doing,
            f"state {name!r}: {schema!r} is the type of one value, and a state has columns, each "
            f'with a name: write "value {schema.strip()}".',
        )
    try:
        struct = pa.struct(list(to_schema(schema)))
        if is_map_key:
            check_map_key(struct)
        return ValueType.of(struct)
    except SchemaError as error:
        refuse(doing, f"state {name!r}: {error}")


def _is_type(text: str) -> bool:
    try:
        return not pa.types.is_struct(parse_type(text))
    except SchemaError:
        return False


def declared_by(processor: StatefulProcessor, time_mode: str, where: str) -> Declared:
    """Run ``init`` on a copy of a processor, and see what it declares."""
    handle = RecordingHandle(time_mode)
    name = type(processor).__name__
    try:
        copy = pickle.loads(cloudpickle.dumps(processor))
    except Exception as error:
        raise GraphError(
            f"{where}: the processor {name} cannot be pickled, so it cannot be sent to a worker: "
            f"{named(error)}. Open connections and the like in init()."
        ) from error
    _run_once(copy, "init", where, handle)
    _run_once(copy, "close", where)
    return handle.declared()


def _run_once(processor: StatefulProcessor, method: str, where: str, *arguments: Any) -> None:
    try:
        getattr(processor, method)(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a sys.exit() in it must not end the program unseen
        raise GraphError(
            f"{where}: {method}() of {type(processor).__name__} failed while the graph was built, "
            "where init() and then close() are run once to see which states it declares: "
            f"{named(error)}\n{place_of(getattr(type(processor), method))}"
        ) from error

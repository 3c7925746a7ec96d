"""Variables of a checkpoint as DataFrames with the columns of our states.

Spark keeps when a value expires, Mainstay when it was written: a value is given the time of writing
with which it expires when Spark would have let it expire, whatever the time to live is now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from mainstay.errors import RestoreError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.declared import Declared
from mainstay.runtime.own_states import EVENT_TIMERS, PROCESSING_TIMERS
from mainstay.schema import format_schema, to_schema
from mainstay.spark.checkpoints.matching import Match
from mainstay.spark.checkpoints.stored import StoredOperator, StoredState, StoredVariable
from mainstay.spark.processors.group_state import STATE, TIMEOUT
from mainstay.spark.states.source import quoted
from mainstay.state.kinds import LIST, MAP
from mainstay.state.timer_handles import EVENT_TIME

NO_TIMEOUT_MS = -1
_LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, up to which there are timestamps."""


@dataclass(frozen=True, slots=True, eq=False)
class StateFrame:
    """A state of the program, the DataFrame of its rows, and what it was in the checkpoint."""

    operator: str
    state: str
    variable: str
    frame: DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointFrames:
    """The frames of one operator."""

    stored: StoredState
    match: Match
    declared: Declared
    notes: list[str]
    """What a person should know is added to them."""

    def of_operator(self, allow_dropped: Collection[str]) -> Iterator[StateFrame]:
        if self.match.stored.is_processor:
            yield from self._of_processor(allow_dropped)
        else:
            yield from self._of_group_states()

    # ------------------------------------------------------------ processors

    def _of_processor(self, allow_dropped: Collection[str]) -> Iterator[StateFrame]:
        operator = self.match.stored
        taken = self.match.taken(allow_dropped)
        for variable in taken:
            yield self._made(variable.name, variable.name, self._variable(operator, variable))
        self._note_differences(taken)
        domain = self.match.node.times.domain
        if domain is not None and operator.time_mode in ("ProcessingTime", "EventTime"):
            name = (EVENT_TIMERS if domain == EVENT_TIME else PROCESSING_TIMERS).name
            frame = self.stored.timers(operator)
            at = _moment(F.col("expiration_timestamp_ms"), "a timer")
            columns = self._selected(frame, name, [at, F.lit(True)])
            yield self._made(name, "timers", columns)

    def _note_differences(self, taken: Sequence[StoredVariable]) -> None:
        uid, names = self.match.uid, {each.name for each in taken}
        for variable in self.match.stored.variables:
            if variable.name not in names:
                self.notes.append(f"the state {variable.name!r} of the checkpoint was left behind")
        for info in self.match.operator.states:
            if info.is_keyed and info.timer is None and info.name not in names:
                self.notes.append(f"state {uid}.{info.name} is not in the checkpoint: starts empty")

    def _variable(self, operator: StoredOperator, variable: StoredVariable) -> DataFrame:
        frame = self.stored.variable(operator, variable)
        columns = self._columns(variable.name)
        shape = _SHAPES.get(variable.kind, _value_of)
        ttl_us = columns.schema.ttl_us
        if variable.has_ttl and ttl_us is None:
            self.notes.append(f"values of {columns.operator}.{variable.name} expire no more")
            # What Spark would not show any more must not come back.
            frame = _without_expired(frame, variable)
        elif ttl_us is not None and not variable.has_ttl:
            self.notes.append(
                f"values of {columns.operator}.{variable.name} have a time to live, which begins "
                "with this import"
            )
        return self._selected(frame, variable.name, shape(variable, ttl_us))

    # ------------------------------------------------------------ applyInPandasWithState

    def _of_group_states(self) -> Iterator[StateFrame]:
        frame = self.stored.group_states(self.match.stored)
        value, timeout = F.col("value.groupState"), F.col("value.timeoutTimestamp")
        with_state = frame.where(value.isNotNull())
        yield self._made(STATE, "groupState", self._selected(with_state, STATE, [value]))
        with_timeout = frame.where(timeout != NO_TIMEOUT_MS)
        if self.match.state(TIMEOUT) is not None:
            at = _moment(timeout, "a timeout")
            yield self._made(TIMEOUT, "timeouts", self._selected(with_timeout, TIMEOUT, [at]))
        elif not with_timeout.limit(1).isEmpty():
            raise RestoreError(
                f"the checkpoint has timeouts, and operator {self.match.uid!r} has none. Give it "
                "the timeout= that the query had."
            )

    # ------------------------------------------------------------ columns

    def _made(self, state: str, variable: str, frame: DataFrame) -> StateFrame:
        return StateFrame(self.match.uid, state, variable, frame)

    def _columns(self, state: str) -> StateColumns:
        return self.declared[self.match.uid].columns(state)

    def _selected(self, frame: DataFrame, state: str, values: Sequence[Column]) -> DataFrame:
        """The key and the values under the names of the state's columns; a time to live whose
        times are not given has no column."""
        columns = self._columns(state)
        keys = self._keys(frame, columns)
        names = [field.name for field in columns.data_fields()]
        pairs = zip([*keys, *values], names, strict=False)
        return frame.select(*(column.alias(name) for column, name in pairs))

    def _keys(self, frame: DataFrame, columns: StateColumns) -> list[Column]:
        stored = [field.name for field in frame.schema["key"].dataType.fields]  # type: ignore[attr-defined]
        wanted = list(columns.key_names) or stored
        if stored != wanted or (not columns.key_names and len(stored) > 1):
            fields = format_schema(to_schema(frame.schema["key"].dataType))
            raise RestoreError(
                f"the query was grouped by {fields!r}, and operator {columns.operator!r} is keyed "
                f"by {', '.join(columns.key_names) or 'what a function makes'}. Key it by the same "
                f"columns in the same order: key_by({', '.join(map(repr, stored))})."
            )
        return [F.col(f"key.{quoted(name)}") for name in wanted]


def _value_of(variable: StoredVariable, ttl_us: int | None) -> list[Column]:
    return _stamped(F.col("value"), variable, ttl_us)


def _list_of(variable: StoredVariable, ttl_us: int | None) -> list[Column]:
    elements = F.col("list_value")
    if not variable.has_ttl:
        return [elements]
    values = F.transform(elements, lambda each: each["value"])
    if ttl_us is None:
        return [values]
    return [values, F.transform(elements, lambda each: _written(each, ttl_us))]


def _map_of(variable: StoredVariable, ttl_us: int | None) -> list[Column]:
    return [F.col("user_map_key"), *_stamped(F.col("user_map_value"), variable, ttl_us)]


_SHAPES: dict[str, Callable[[StoredVariable, int | None], list[Column]]] = {
    LIST.name: _list_of,
    MAP.name: _map_of,
}


def _stamped(value: Column, variable: StoredVariable, ttl_us: int | None) -> list[Column]:
    """A value, and where it is known and needed when it was written."""
    if not variable.has_ttl:
        return [value]
    return [value["value"]] if ttl_us is None else [value["value"], _written(value, ttl_us)]


def _written(value: Column, ttl_us: int) -> Column:
    return F.timestamp_micros(value["ttlExpirationMs"] * 1000 - F.lit(ttl_us))


def _without_expired(frame: DataFrame, variable: StoredVariable) -> DataFrame:
    now_ms = F.unix_millis(F.current_timestamp())
    if variable.kind == LIST.name:
        left = F.filter(F.col("list_value"), lambda each: each["ttlExpirationMs"] > now_ms)
        return frame.withColumn("list_value", left)
    value = "user_map_value" if variable.kind == MAP.name else "value"
    return frame.where(F.col(value)["ttlExpirationMs"] > now_ms)


def _moment(at_ms: Column, what: str) -> Column:
    """Milliseconds since 1970 as a timestamp."""
    beyond = F.raise_error(F.concat(F.lit(f"{what} is beyond the year 9999: "), at_ms))
    return F.when(at_ms <= _LAST_MS, F.timestamp_millis(at_ms)).otherwise(beyond.cast("timestamp"))

"""Timers as a function sees them: handles that keep a state and its index of times in step.

A *declared* timer is one time for each key, a state like any other. Timers that a function sets
without declaring them are a state by key and time: a set of times for each key. An operator takes
what is due out of either with ``due_us`` and ``take``; a timer that was taken is in no snapshot.

Times are kept as datetimes in UTC, and are microseconds since 1970 in the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NoReturn

import pyarrow as pa

from mainstay.errors import MainstayError, StateTypeError
from mainstay.state.hints import Hinting
from mainstay.state.info import StateInfo
from mainstay.state.keyed import (
    NO_KEY,
    AnyContext,
    NamespacedContext,
    ValueTable,
    check_pairs,
    frozen_keys,
    named,
)
from mainstay.state.timer_index import TimerIndex

EVENT_TIME, PROCESSING_TIME = "event_time", "processing_time"
DOMAINS = (EVENT_TIME, PROCESSING_TIME)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LATEST = datetime.max.replace(tzinfo=timezone.utc)
_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000


@dataclass(frozen=True, slots=True)
class TimerSpec:
    """What a timer goes by, and which times it is rounded up to."""

    domain: str
    every_us: int = 1


def microseconds(at: datetime) -> int:
    """Since 1970, of a datetime in UTC."""
    since = at - _EPOCH
    return since.days * _DAY_US + since.seconds * _SECOND_US + since.microseconds


def moment(time_us: int) -> datetime:
    """The datetime in UTC of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=time_us)


def index_of(table: Any) -> TimerIndex:
    """The order of the timers in a table: its own, where it has one, or one in memory."""
    found: TimerIndex = getattr(table, "timer_order", None) or TimerIndex()
    return found


class _Timers(Hinting):
    """What the handles of timers share."""

    __slots__ = ("_context", "_spec", "_table", "_update", "ignored", "index", "info", "is_over")

    def __init__(self, info: StateInfo, table: ValueTable, context: AnyContext) -> None:
        assert info.timer is not None
        self.info = info
        self.index = index_of(table)
        self.is_over = False
        """Whether no time comes any more that a timer could wait for."""
        self.ignored = 0
        """How many timers were set when it was over."""
        self._context = context
        self._spec = info.timer
        self._table = table
        self._update = table.access(context).update

    @property
    def domain(self) -> str:
        return self._spec.domain

    @property
    def timer(self) -> str | None:
        """What a function knows the timer by; None where it was not declared."""
        return self.info.name

    def due_us(self) -> int | None:
        """The time of the first timer."""
        return self.index.first()

    def _rounded(self, at: datetime) -> datetime:
        every_us = self._spec.every_us
        over = microseconds(at) % every_us
        if not over:
            return at
        try:
            return at + timedelta(microseconds=every_us - over)
        except OverflowError:
            return _LATEST

    def _time(self, at: Any) -> datetime:
        try:
            if at is None:
                raise StateTypeError("None is no time; call clear() to have no timer.")
            return self._rounded(self.info.value.freeze(at))
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__


class TimerHandle(_Timers):
    """Stands in for a declared ``Timer``."""

    __slots__ = ()
    offered = ("clear", "clear_many", "get", "get_many", "set", "set_many")

    def restore(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Find all that the state holds."""
        self.index.fill((microseconds(at), key) for key, at in entries)

    def all(self) -> Iterator[tuple[int, Any]]:
        """Every time in the state, and the key that waits for it."""
        return ((microseconds(at), key) for key, at in self._table.entries())

    # ------------------------------------------------------------ of the current key

    def get(self) -> datetime | None:
        found: datetime | None = self._table.read(self._key())
        return found

    def set(self, at: datetime) -> None:
        key, time = self._key(), self._time(at)
        if self.is_over:
            self.ignored += 1
            return
        before = self._table.read(key)
        if before == time:
            return
        if before is not None:
            self.index.remove(microseconds(before), key)
        self.index.add(microseconds(time), key)
        self._update(time)

    def clear(self) -> None:
        key = self._key()
        before = self._table.read(key)
        if before is not None:
            self.index.remove(microseconds(before), key)
            self._table.delete(key)

    def _key(self) -> Any:
        key = self._context.current_key
        return no_key(f"timer {self.info.name!r} was used") if key is NO_KEY else key

    # ------------------------------------------------------------ of many keys

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        return self._table.read_many(frozen_keys(self.info, self._context, keys), default)

    def set_many(self, keys: Iterable[Any], times: Iterable[Any]) -> None:
        # All of it is checked before the first is stored: all are stored, or none.
        frozen = frozen_keys(self.info, self._context, keys)
        kept = self._times(times)
        check_pairs(self.info, frozen, kept, "set_many")
        if self.is_over:
            self.ignored += len(frozen)
            return
        # The last counts where a key comes twice.
        self._replace(dict(zip(frozen, kept, strict=True)))

    def clear_many(self, keys: Iterable[Any]) -> None:
        self._replace(dict.fromkeys(frozen_keys(self.info, self._context, keys)))

    def _times(self, times: Iterable[Any]) -> list[datetime | None]:
        try:
            found: list[datetime | None] = self.info.value.freeze_many(times)
        except StateTypeError as error:
            raise named(self.info, error) from error.__cause__
        if self._spec.every_us == 1:
            return found
        return [None if at is None else self._rounded(at) for at in found]

    def _replace(self, timers: dict[Any, datetime | None]) -> None:
        index = self.index
        before = self._table.read_many(list(timers), None)
        changed = [
            (key, was, at)
            for (key, at), was in zip(timers.items(), before, strict=True)
            if was != at
        ]
        for key, was, at in changed:
            if was is not None:
                index.remove(microseconds(was), key)
            if at is not None:
                index.add(microseconds(at), key)
        self._table.put_many([key for key, _, _ in changed], [at for _, _, at in changed])

    # ------------------------------------------------------------ by the column

    def column(self, keys: pa.Array) -> pa.Array:
        """The times of some keys as a column; null where there is none."""
        frozen = frozen_keys(self.info, self._context, keys)
        return self.info.value.to_array(self._table.read_many(frozen, None))

    def keep_column(self, keys: pa.Array, times: pa.Array) -> None:
        """Keep the times of some distinct keys as they are, null for none: also when it is over."""
        frozen = frozen_keys(self.info, self._context, keys)
        self._replace(dict(zip(frozen, self.info.value.from_array(times), strict=True)))

    # ------------------------------------------------------------ what is due

    def take(self) -> Any:
        """Take the first timer out; the key that has it."""
        key = self.index.poll()
        self._table.delete(key)
        return key

    def take_many(self, until_us: int, most: int) -> tuple[list[Any], list[int]]:
        """Take out timers up to a time, in order; the keys that have them, and their times."""
        index = self.index
        keys: list[Any] = []
        times: list[int] = []
        while len(keys) < most and (at := index.first()) is not None and at <= until_us:
            keys.append(index.poll())
            times.append(at)
        self._table.put_many(keys, [None] * len(keys))
        return keys, times

    def _kind(self) -> str:
        return "Timer"


class TimersHandle(_Timers):
    """The timers of keys that are not declared: any number of times for each key."""

    __slots__ = ("_namespaced",)

    def __init__(self, info: StateInfo, table: ValueTable, context: NamespacedContext) -> None:
        super().__init__(info, table, context)
        self._namespaced = context

    @property
    def timer(self) -> str | None:
        return None

    def restore(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Find all that the state holds."""
        self.index.fill((microseconds(at), key) for (key, at), _ in entries)

    def all(self) -> Iterator[tuple[int, Any]]:
        """Every time in the state, and the key that waits for it."""
        return ((microseconds(at), key) for (key, at), _ in self._table.entries())

    def get(self) -> bool | None:
        """Whether the current key has a timer for the namespace that was entered."""
        found: bool | None = self._table.read(self._namespaced.current_key)
        return found

    def set(self, at: datetime) -> None:
        key, time = self._key(), self._time(at)
        if self.is_over:
            self.ignored += 1
        elif self.index.add(microseconds(time), key):
            self._namespaced.enter(time)
            self._update(True)

    def delete(self, at: datetime) -> None:
        key, time = self._key(), self._time(at)
        if self.index.remove(microseconds(time), key):
            self._table.delete((key, time))

    def _time(self, at: Any) -> datetime:
        assert self.info.namespace is not None
        try:
            found: datetime = self.info.namespace.freeze(at)
        except StateTypeError as error:
            where = f"ctx.timers.{self.domain}()"
            raise StateTypeError(f"{where}: {error}") from error.__cause__
        return found

    def _key(self) -> Any:
        key = self._namespaced.current_key[0]
        return no_key(f"ctx.timers.{self.domain}() was called") if key is NO_KEY else key

    def take(self) -> Any:
        """Take the first timer out; the key that has it."""
        at = self.index.first()
        assert at is not None
        key = self.index.poll()
        self._table.delete((key, moment(at)))
        return key


def timers_among(handles: Iterable[Any]) -> Iterator[TimerHandle | TimersHandle]:
    """The handles of timers among those of all states."""
    return (each for each in handles if isinstance(each, TimerHandle | TimersHandle))


def in_domain(
    handles: Sequence[TimerHandle | TimersHandle], domain: str
) -> list[TimerHandle | TimersHandle]:
    return [each for each in handles if each.domain == domain]


def no_key(what: str) -> NoReturn:
    raise MainstayError(
        f"{what} where there is no key: a timer belongs to a key, and only a row has one, and a "
        "timer that fires. open(), close(), on_snapshot_complete() and broadcast rows have none. A "
        "function over batches uses set_many(keys, times) of a timer that it declares."
    )

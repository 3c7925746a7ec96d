"""Windows as a job's author asks for them: ``ms.tumbling("1min")``, ``ms.session("5min")``.

See :meth:`mainstay.KeyedStream.window`. Windows with fixed bounds are aligned to 1970 in UTC, and
contain their start and not their end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from mainstay.api.checks import described
from mainstay.api.expressions import Column
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.quantities import seconds, whole_number
from mainstay.runtime.windows import FixedWindows
from mainstay.spelling import did_you_mean

Time = Literal["event", "processing"]
Duration = str | float | timedelta


@with_own_frames
@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, one after the other: a row is in exactly one."""

    size: Duration
    offset: Duration = "0s"
    time: Time = "event"

    def __post_init__(self) -> None:
        _check_time("tumbling", self.time)
        self.fixed()

    def fixed(self) -> FixedWindows:
        """The windows in microseconds."""
        size = _size("tumbling", "size", self.size)
        return FixedWindows(size, size, _offset("tumbling", self.offset, size, "the size"))


@with_own_frames
@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of one size, of which one begins every so often: a row may be in several.

    Where ``every`` is more than ``size``, rows in between are in none.
    """

    size: Duration
    every: Duration
    offset: Duration = "0s"
    time: Time = "event"

    def __post_init__(self) -> None:
        _check_time("sliding", self.time)
        self.fixed()

    def fixed(self) -> FixedWindows:
        """The windows in microseconds."""
        size = _size("sliding", "size", self.size)
        every = _size("sliding", "every", self.every)
        return FixedWindows(size, every, _offset("sliding", self.offset, every, "every"))


@with_own_frames
@dataclass(frozen=True, slots=True)
class Cumulating:
    """Windows that begin together and end one after the other, up to ``size``; then again."""

    size: Duration
    every: Duration
    offset: Duration = "0s"
    time: Time = "event"

    def __post_init__(self) -> None:
        _check_time("cumulating", self.time)
        self.fixed()

    def fixed(self) -> FixedWindows:
        """The windows in microseconds."""
        size = _size("cumulating", "size", self.size)
        every = _size("cumulating", "every", self.every)
        if size % every:
            raise GraphError(
                f"cumulating(): size={self.size!r} is no multiple of every={self.every!r}, so the "
                "last window would end in between. Choose a size that is one."
            )
        offset = _offset("cumulating", self.offset, size, "the size")
        return FixedWindows(size, every, offset, cumulates=True)


@with_own_frames
@dataclass(frozen=True, slots=True)
class Session:
    """Windows that last while rows of a key come: they end when none has come for ``gap``.

    ``gap`` is a duration, an expression of the columns, or a function of the row, which gives a
    duration for each.
    """

    gap: Duration | Column | Callable[[Any], Any]
    time: Time = "event"

    def __post_init__(self) -> None:
        _check_time("session", self.time)
        if not self.is_dynamic:
            _size("session", "gap", self.gap)

    @property
    def is_dynamic(self) -> bool:
        """Whether rows have a gap of their own each."""
        return isinstance(self.gap, Column) or callable(self.gap)

    @property
    def gap_us(self) -> int:
        """The gap in microseconds, where all rows have the same."""
        return _size("session", "gap", self.gap)


@with_own_frames
@dataclass(frozen=True, slots=True)
class Rows:
    """Windows of a number of rows of a key: the last ``size``, each time that ``every`` more have
    come. Without ``every`` they follow each other."""

    size: int
    every: int | None = None

    def __post_init__(self) -> None:
        whole_number(self.size, "size", where="rows()")
        if self.every is not None:
            whole_number(self.every, "every", where="rows()")


Window = Tumbling | Sliding | Cumulating | Session | Rows
FIXED = (Tumbling, Sliding, Cumulating)


def tumbling(size: Duration, *, offset: Duration = "0s", time: Time = "event") -> Tumbling:
    """Windows of one size, one after the other: ``tumbling("1min")``. A row is in exactly one.

    An ``offset`` moves their bounds, as in ``tumbling("1 day", offset="-1h")`` for days that begin
    at 23:00 UTC. With ``time="processing"`` a row has the time at which its operator takes it.
    """
    return Tumbling(size, offset, time)


def sliding(
    size: Duration, every: Duration, *, offset: Duration = "0s", time: Time = "event"
) -> Sliding:
    """Windows of one size, one of which begins every so often: ``sliding("10s", every="2s")``.

    A row costs the same however many windows it is in. With ``every`` above ``size`` there are
    gaps, and rows in them are in no window.
    """
    return Sliding(size, every, offset, time)


def cumulating(
    size: Duration, every: Duration, *, offset: Duration = "0s", time: Time = "event"
) -> Cumulating:
    """Windows that begin together and grow: ``cumulating("1 day", every="1h")`` gives the day so
    far at each hour. ``size`` is a multiple of ``every``."""
    return Cumulating(size, every, offset, time)


def session(gap: Duration | Column | Callable[[Any], Any], *, time: Time = "event") -> Session:
    """Windows that last while rows of a key come, and end when none has come for ``gap``.

    It is a duration, or for a gap of its own for each row an expression of the columns or a
    function of the row.
    """
    return Session(gap, time)


def rows(size: int, every: int | None = None) -> Rows:
    """Windows of a number of rows of a key: ``rows(100)``, or ``rows(100, every=10)`` for the last
    hundred at each tenth."""
    return Rows(size, every)


def checked_window(window: Any, where: str) -> Window:
    """Refuse what is no window."""
    if not isinstance(window, Window):
        raise GraphError(
            f'{where} needs a window, not {described(window)}. Write ms.tumbling("1min"), or '
            "another of ms.sliding, cumulating, session, rows."
        )
    return window


def microseconds(duration: Any, name: str, *, positive: bool = False) -> int:
    """A duration in whole microseconds."""
    return round(seconds(duration, name, positive=positive) * 1_000_000)


def signed_microseconds(duration: Any, name: str) -> int:
    """The same for one that may lead back: with a minus before it."""
    if isinstance(duration, str) and duration.lstrip().startswith("-"):
        return -microseconds(duration.lstrip()[1:], name)
    if isinstance(duration, timedelta) and duration < timedelta(0):
        return -microseconds(-duration, name)
    if isinstance(duration, int | float) and not isinstance(duration, bool) and duration < 0:
        return -microseconds(-duration, name)
    return microseconds(duration, name)


def _size(window: str, name: str, given: Any) -> int:
    found = microseconds(given, f"{window}(): {name}", positive=True)
    if not found:
        raise GraphError(f"{window}(): {name}={given!r} is less than a microsecond.")
    return found


def _offset(window: str, given: Any, below: int, what: str) -> int:
    found = signed_microseconds(given, f"{window}(): offset")
    if abs(found) >= below:
        raise GraphError(
            f"{window}(): offset={given!r} must be less than {what}, forwards or back: by more "
            "than that the bounds only come to lie on other bounds."
        )
    return found


def _check_time(window: str, time: Any) -> None:
    known = get_args(Time)
    if time not in known:
        raise GraphError(
            f"{window}(): time={time!r} is unknown; choose one of {', '.join(known)}."
            f"{did_you_mean(time, known)}"
        )

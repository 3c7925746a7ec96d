"""What may stand between the rows of a list that a job is tested with.

::

    [
        ("alice", 5, "2026-01-01 10:00:05"),
        Watermark("2026-01-01 10:01:00"),  # no row that follows is older
        advance_clock("10s"),
        snapshot(),
        crash(),
    ]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

from mainstay.errors import GraphError
from mainstay.own_frames import made_with_own_frames, own_frames
from mainstay.quantities import seconds
from mainstay.runtime.watermarks import END_US

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)


@made_with_own_frames
@dataclass(frozen=True, init=False, repr=False)
class Watermark:
    """Event time has come to ``at``: a datetime, an ISO text or microseconds since 1970, in UTC
    where no zone is given."""

    time_us: int

    def __init__(self, at: datetime | str | int) -> None:
        object.__setattr__(self, "time_us", _microseconds(at))

    @property
    def at(self) -> datetime:
        """The same as a datetime in UTC."""
        return EPOCH + self.time_us * MICROSECOND

    def __repr__(self) -> str:
        return "LAST" if self.time_us == END_US else f"Watermark({str(self.at)[:-6]!r})"


@dataclass(frozen=True, slots=True)
class AdvanceClock:
    by_s: float

    def __repr__(self) -> str:
        return f"advance_clock({self.by_s:g})"


@dataclass(frozen=True, slots=True)
class Idle:
    def __repr__(self) -> str:
        return "idle()"


@dataclass(frozen=True, slots=True)
class Snapshot:
    def __repr__(self) -> str:
        return "snapshot()"


@dataclass(frozen=True, slots=True)
class Crash:
    def __repr__(self) -> str:
        return "crash()"


OF_INPUT = (Watermark, Idle)
"""Elements that are of one input; a restored job takes them again, as it does rows."""
OF_JOB = (AdvanceClock, Snapshot, Crash)
"""Elements that are of the whole job, and take effect once."""

Element: TypeAlias = "Watermark | Idle | AdvanceClock | Snapshot | Crash"


@own_frames
def advance_clock(by: str | float) -> AdvanceClock:
    """Processing time moves on by a duration, as in ``advance_clock("10s")``."""
    return AdvanceClock(seconds(by, "by", positive=True))


def idle() -> Idle:
    """The input is idle: event time does not wait for it until its next row or watermark."""
    return Idle()


def snapshot() -> Snapshot:
    """An epoch is taken here, and is complete before the next element."""
    return Snapshot()


def crash() -> Crash:
    """A worker is killed here: the job goes on from its last epoch."""
    return Crash()


def is_row(element: Any) -> bool:
    """Whether an element of a list is a row."""
    return not isinstance(element, OF_INPUT + OF_JOB)


def _microseconds(at: Any) -> int:
    if isinstance(at, int) and not isinstance(at, bool):
        return at
    if isinstance(at, str):
        at = _parsed(at)
    if not isinstance(at, datetime):
        raise GraphError(
            f"Watermark({at!r}): the time of a watermark is a datetime, a text such as "
            '"2026-01-01 10:00:00", or microseconds since 1970.'
        )
    utc = at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at
    return (utc - EPOCH) // MICROSECOND


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        raise GraphError(
            f'Watermark({text!r}) is no time. Write a date and a time, as in "2026-01-01 10:00:00".'
        ) from None


LAST = Watermark(END_US)
"""The watermark at the end of input, after which there is no row."""

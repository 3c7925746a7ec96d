"""Jobs with one window, for tests that are tables of what happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.testing import Result, Watermark, run

CLICKS = "user string, at timestamp, amount long"
_1970 = datetime(1970, 1, 1, tzinfo=timezone.utc)


def s(second: float) -> datetime:
    """Seconds after 1970, or before."""
    return _1970 + timedelta(seconds=second)


def second(time: datetime) -> float:
    return (time - _1970) / timedelta(seconds=1)


def click(user: str | None, at: float | None, amount: int | None = 1) -> tuple[Any, ...]:
    return user, None if at is None else s(at), amount


def until(at: float) -> Watermark:
    return Watermark(s(at))


def clicks(env: ms.Environment, uid: str = "clicks", delay: str = "0s") -> ms.Stream:
    watermark = ms.Watermark("at", delay=delay, idle="1min")
    return env.source(Rows(CLICKS, []), uid=uid, watermark=watermark)


def windowed(window: Any, **how: Any) -> Callable[[ms.Environment], None]:
    """Counts and sums of each user; late rows are read."""

    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user")
        found = keyed.window(window, **how).aggregate(
            n=ms.count(), total=ms.sum("amount"), uid="windows"
        )
        found.sink(Memory(), uid="out")
        found.late.sink(Memory(), uid="late")

    return build


def shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with their times as seconds after 1970."""
    return [
        tuple(second(value) if isinstance(value, datetime) else value for value in row)
        for row in rows
    ]


def emitted(result: Result, uid: str = "windows") -> list[Any]:
    """What an operator has emitted, with times as seconds after 1970."""
    return [
        each if isinstance(each, Watermark) else shown([each])[0] for each in result.elements(uid)
    ]


def output(build: Any, elements: list[Any], uid: str = "out", **how: Any) -> list[tuple[Any, ...]]:
    """The committed rows of a sink, sorted, with times as seconds after 1970."""
    result = run(build, {"clicks": elements}, **how)
    return sorted(shown(result.output(uid)), key=repr)

"""What windows do, a row for each behaviour: elements in, results and late rows out.

Each run has an epoch and a crash behind every watermark, and leaves no state. It happens on the
heap and on RocksDB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import Watermark, crash, run, snapshot
from tests.windows.kit import click, shown, until, windowed

pytestmark = pytest.mark.usefixtures("backend")

TUMBLING, SLIDING, SESSION = ms.tumbling("10s"), ms.sliding("10s", every="5s"), ms.session("5s")
CUMULATING = ms.cumulating("10s", every="5s")
GAPS = ms.session(ms.col("amount"))
HUGE = "4000000 days"


@dataclass(frozen=True)
class Behaviour:
    """What goes in, and what comes out: key, start, end, count, sum; and the times of late rows."""

    name: str
    window: Any
    elements: list[Any]
    out: list[tuple[Any, ...]]
    late: list[Any] = field(default_factory=list)
    how: dict[str, Any] = field(default_factory=dict)


def at(time: float, user: str = "a", amount: int = 1) -> tuple[Any, ...]:
    return click(user, time, amount)


LATE = [at(1), until(10), at(2), until(15), at(3), until(30)]
"""A row in time, one that is late by nothing but the end, and one five seconds later."""

BEHAVIOURS = [
    # which windows
    Behaviour(
        "one window for each row",
        TUMBLING,
        [at(0), at(9.999999), at(10)],
        [("a", 0, 10, 2, 2), ("a", 10, 20, 1, 1)],
    ),
    Behaviour(
        "several windows do not interfere",
        SLIDING,
        [at(7), at(12)],
        [("a", 0, 10, 1, 1), ("a", 5, 15, 2, 2), ("a", 10, 20, 1, 1)],
    ),
    Behaviour(
        "before 1970 and with an offset",
        ms.tumbling("10s", offset="-1s"),
        [at(-2), at(-1)],
        [("a", -11, -1, 1, 1), ("a", -1, 9, 1, 1)],
    ),
    Behaviour(
        "sizes that are no multiples",
        ms.sliding("5s", every="3s"),
        [at(4)],
        [("a", 0, 5, 1, 1), ("a", 3, 8, 1, 1)],
    ),
    Behaviour("cumulating", CUMULATING, [at(1), at(6)], [("a", 0, 5, 1, 1), ("a", 0, 10, 2, 2)]),
    Behaviour(
        "rows in a gap are in no window and not late",
        ms.sliding("2s", every="5s"),
        [until(20), at(23), at(21)],
        [("a", 20, 22, 1, 1)],
    ),
    Behaviour(
        "keys have windows of their own",
        TUMBLING,
        [at(1), at(2, "b"), until(10), at(11, "b")],
        [("a", 0, 10, 1, 1), ("b", 0, 10, 1, 1), ("b", 10, 20, 1, 1)],
    ),
    # sessions
    Behaviour(
        "a point is a session",
        SESSION,
        [at(1), until(6), at(20)],
        [("a", 1, 6, 1, 1), ("a", 20, 25, 1, 1)],
    ),
    Behaviour("sessions that touch merge", SESSION, [at(0), at(5)], [("a", 0, 10, 2, 2)]),
    Behaviour(
        "a row covers several sessions",
        GAPS,
        [at(3, amount=1), at(6, amount=1), at(2, amount=9)],
        [("a", 2, 11, 3, 11)],
    ),
    Behaviour(
        "a row bridges two sessions",
        SESSION,
        [at(0), until(1), at(9), until(2), at(5)],
        [("a", 0, 14, 3, 3)],
    ),
    Behaviour(
        "an identical session changes nothing but the count",
        SESSION,
        [at(1), until(2), at(1)],
        [("a", 1, 6, 2, 2)],
    ),
    Behaviour(
        "gaps of rows",
        GAPS,
        [at(0, amount=2), until(1), at(1, amount=7), at(9, amount=1)],
        [("a", 0, 8, 2, 9), ("a", 9, 10, 1, 1)],
    ),
    Behaviour(
        "a late row joins a session that is open",
        SESSION,
        [at(8), until(10), at(3)],
        [("a", 3, 13, 2, 2)],
    ),
    Behaviour(
        "a session that was emitted takes no row",
        SESSION,
        [at(0), until(5), at(4), until(20)],
        [("a", 0, 5, 1, 1), ("a", 4, 9, 1, 1)],
    ),
    # late rows: each kind of window with no lateness, with some, and with more than there is time
    Behaviour("tumbling, no lateness", TUMBLING, LATE, [("a", 0, 10, 1, 1)], [2, 3]),
    Behaviour(
        "tumbling, some lateness", TUMBLING, LATE, [("a", 0, 10, 2, 2)], [3], {"lateness": "5s"}
    ),
    Behaviour(
        "tumbling, huge lateness", TUMBLING, LATE, [("a", 0, 10, 3, 3)], [], {"lateness": HUGE}
    ),
    Behaviour(
        "sliding, no lateness", SLIDING, LATE, [("a", -5, 5, 1, 1), ("a", 0, 10, 1, 1)], [2, 3]
    ),
    Behaviour(
        "sliding, some lateness",
        SLIDING,
        LATE,
        [("a", -5, 5, 1, 1), ("a", 0, 10, 2, 2)],
        [3],
        {"lateness": "5s"},
    ),
    Behaviour(
        "sliding, huge lateness",
        SLIDING,
        LATE,
        [("a", -5, 5, 3, 3), ("a", 0, 10, 3, 3)],
        [],
        {"lateness": HUGE},
    ),
    Behaviour("session, no lateness", SESSION, LATE, [("a", 1, 6, 1, 1)], [2, 3]),
    Behaviour(
        "session, some lateness", SESSION, LATE, [("a", 1, 7, 2, 2)], [3], {"lateness": "5s"}
    ),
    Behaviour("session, huge lateness", SESSION, LATE, [("a", 1, 8, 3, 3)], [], {"lateness": HUGE}),
    Behaviour(
        "late for some windows counts in the others",
        SLIDING,
        [at(7), until(10), at(6)],
        [("a", 0, 10, 1, 1), ("a", 5, 15, 2, 2)],
    ),
    Behaviour(
        "a row at the very watermark is in time",
        TUMBLING,
        [at(10), until(10), at(10)],
        [("a", 10, 20, 2, 2)],
    ),
    Behaviour(
        "a row without a time is late",
        TUMBLING,
        [at(1), click("a", None)],
        [("a", 0, 10, 1, 1)],
        [None],
    ),
    # firing
    Behaviour(
        "a window that has fired does not fire again",
        TUMBLING,
        [at(1), until(10), until(11)],
        [("a", 0, 10, 1, 1)],
    ),
    Behaviour(
        "a watermark that jumps fires all in between",
        TUMBLING,
        [at(1), at(25), until(60), at(70)],
        [("a", 0, 10, 1, 1), ("a", 20, 30, 1, 1), ("a", 70, 80, 1, 1)],
    ),
    Behaviour(
        "an expired slice takes no row",
        SLIDING,
        [at(7), until(16), at(8), at(14)],
        [("a", 0, 10, 1, 1), ("a", 10, 20, 1, 1), ("a", 5, 15, 1, 1)],
        [8],
    ),
    Behaviour("nothing is emitted of nothing", TUMBLING, [until(10), until(20)], []),
    Behaviour(
        "updates",
        TUMBLING,
        [at(1), until(10), at(2), until(15), until(16)],
        [("a", 0, 10, 1, 1, False), ("a", 0, 10, 2, 2, False), ("a", 0, 10, 2, 2, True)],
        [],
        {"lateness": "5s", "emit": "update"},
    ),
    Behaviour(
        "updates of sessions that a late row joins",
        SESSION,
        [at(0), at(10), until(15), at(5), until(60)],
        [
            ("a", 0, 15, 3, 3, False),
            ("a", 0, 15, 3, 3, True),
            ("a", 0, 5, 1, 1, False),
            ("a", 10, 15, 1, 1, False),
        ],
        [],
        {"lateness": "20s", "emit": "update"},
    ),
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.name)
def test_windows_behave(behaviour: Behaviour) -> None:
    elements: list[Any] = []
    for each in behaviour.elements:
        elements += [each, snapshot(), crash()] if isinstance(each, Watermark) else [each]
    build = windowed(behaviour.window, **behaviour.how)
    result = run(build, {"clicks": elements}, parallelism=2)
    assert sorted(shown(result.output("out"))) == sorted(behaviour.out)
    late = [row[1] for row in shown(result.output("late"))]
    assert sorted(late, key=repr) == sorted(behaviour.late, key=repr)
    kept = "sessions" if isinstance(behaviour.window, type(SESSION)) else "panes"
    assert result.state("windows", kept) == {}

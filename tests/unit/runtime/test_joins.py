"""Joins by literals: what is joined, when it goes out, what is late, and what stays in state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import mainstay as ms
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.watermarks import LAST
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.testing.memory_disk import MemoryRocksSettings
from tests.joining import JoinUnderTest

BACKENDS = {"heap": HeapSettings(), "rocksdb": MemoryRocksSettings(1 << 16)}


@pytest.fixture(params=BACKENDS)
def join(request: pytest.FixtureRequest) -> Iterator[Any]:
    opened: list[JoinUnderTest] = []

    def make(**options: Any) -> JoinUnderTest:
        opened.append(JoinUnderTest(BACKENDS[request.param], **options))
        return opened[-1]

    yield make
    for each in opened:
        each.member.release()


# ---------------------------------------------------------------- intervals

BOUNDS = [
    ("-2s", "-1s", [8, 9]),
    ("1s", "2s", [11, 12]),
    ("-1s", "2s", [9, 10, 11, 12]),
    ("0s", "0s", [10]),
    ("-1s", "0s", [9, 10]),
    (-0.5, 0.5, [10]),
]


@pytest.mark.parametrize("order", ["left first", "right first", "with a restart", "one batch"])
@pytest.mark.parametrize(("lower", "upper", "matched"), BOUNDS)
def test_both_bounds_belong_to_the_interval(
    join: Any, lower: Any, upper: Any, matched: list[int], order: str
) -> None:
    subject = join(within=ms.interval(lower, upper))
    left, right = [("a", 1, 10)], [("a", n, n) for n in range(6, 15)]
    if order == "right first":
        subject.right(*right).left(*left)
    else:
        subject.left(*left)
        if order == "with a restart":
            subject.restart()
        for row in [right] if order == "one batch" else [[row] for row in right]:
            subject.right(*row)
    assert subject.taken() == sorted(((1, n) for n in matched), key=str)
    subject.right(("b", 99, 10))
    assert subject.taken() == []


def test_a_microsecond_outside_of_the_interval_is_outside(join: Any) -> None:
    subject = join(within=ms.interval("-1s", "1s"))
    subject.left(("a", 1, 10)).right(("a", 2, 8.999999), ("a", 3, 9), ("a", 4, 11))
    subject.right(("a", 5, 11.000001))
    assert subject.taken() == [(1, 3), (1, 4)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_row_is_kept_while_one_in_time_can_match_it_and_no_longer(
    join: Any, restarts: bool
) -> None:
    subject = join(within=ms.interval("0s", "2s"))
    subject.left(("a", 1, 3.999999))
    subject.watermark(5.999999)
    if restarts:
        subject.restart()
    # The right row of just this time is in time, and within the bounds.
    subject.right(("a", 2, 5.999999))
    assert subject.taken() == [(1, 2)]
    assert subject.kept() == {"left": 1, "right": 1}
    subject.watermark(6)
    if restarts:
        subject.restart()
    assert subject.kept() == {}, "panes of two seconds: that of the left row ends at 4"


def test_a_right_row_is_kept_for_as_long_as_the_lower_bound_says(join: Any) -> None:
    subject = join(within=ms.interval("-3s", "0s"))
    subject.right(("a", 1, 2)).left(("a", 9, 1))
    subject.watermark(5)
    assert subject.kept() == {"right": 1}, "the left row cannot match anything that comes"
    subject.left(("a", 2, 5)).taken()
    assert subject.late == []
    subject.watermark(6)
    assert subject.kept() == {}


def test_a_row_is_late_when_it_can_match_nothing_any_more(join: Any) -> None:
    subject = join(within=ms.interval("-1s", "2s"))
    subject.watermark(10)
    subject.left(("a", 1, 8), ("a", 2, 7.999999)).right(("a", 3, 9), ("a", 4, 8.999999))
    assert subject.late == [("late_left", 2), ("late_right", 4)]
    assert subject.taken() == [(1, 3)]
    subject.restart()
    subject.left(("a", 5, 7.999999))
    assert subject.late[-1] == ("late_left", 5), "what was late is so after a restart"


def test_a_row_without_a_time_is_late(join: Any) -> None:
    subject = join(within=ms.interval("-1s", "2s"), how="full")
    subject.left(("a", 1, None)).right(("a", 2, None)).last()
    assert subject.late == [("late_left", 1), ("late_right", 2)]
    assert subject.taken() == []


HOWS = {
    "inner": [(1, 10), (1, 11), (2, 11)],
    "left": [(1, 10), (1, 11), (2, 11), (3, None), (5, None)],
    "right": [(1, 10), (1, 11), (2, 11), (None, 12), (None, 13), (None, 14)],
    "full": [(1, 10), (1, 11), (2, 11), (3, None), (5, None), (None, 12), (None, 13), (None, 14)],
    "semi": [(1,), (2,)],
    "anti": [(3,), (5,)],
}


@pytest.mark.parametrize("right_first", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("how", HOWS)
def test_every_way_to_join(join: Any, how: str, restarts: bool, right_first: bool) -> None:
    subject = join(within=ms.interval("-2s", "2s"), how=how)
    left = [("a", 1, 10), ("a", 2, 12), ("b", 3, 11), (None, 5, 11)]
    right = [("a", 10, 9), ("a", 11, 11), ("a", 12, 15), ("c", 13, 11), (None, 14, 11)]
    for give, given in sorted(
        [(subject.left, left), (subject.right, right)], key=lambda each: each[1] is left
    )[:: 1 if right_first else -1]:
        for row in given:
            give(row)
            if restarts:
                subject.restart()
    for time in (11, 13, 14, 16, 20):
        subject.watermark(time)
        if restarts:
            subject.restart()
    assert subject.taken() == sorted(HOWS[how], key=str)
    assert subject.kept() == {}
    assert subject.late == []
    assert subject.last().taken() == []


def test_an_unmatched_row_goes_out_once_its_pane_can_match_nothing(join: Any) -> None:
    subject = join(within=ms.interval("0s", "4s"), how="left")
    subject.left(("a", 1, 10.5)).watermark(14.999999)
    assert subject.taken() == [], "panes are a second long"
    subject.watermark(15)
    assert subject.taken() == [(1, None)]
    assert subject.kept() == {}
    assert subject.forwarded(15) == 10, "no row that is emitted later is older"


def test_what_can_match_nothing_that_comes_goes_out_at_once(join: Any) -> None:
    subject = join(within=ms.interval("-4s", "-2s"), how="left")
    subject.watermark(10)
    subject.left(("a", 1, 11)).taken()
    assert subject.kept() == {}
    subject.right(("a", 2, 10))
    subject.left(("a", 3, 12))
    assert subject.taken() == [(3, 2)]
    assert subject.kept()["left"] == 1, "a right row of 10 may still come"


def test_the_watermark_is_held_back_by_what_may_still_be_emitted() -> None:
    heap = BACKENDS["heap"]
    inner = JoinUnderTest(heap, within=ms.interval("-3s", "8s"))
    assert inner.forwarded(100) == 92
    full = JoinUnderTest(heap, within=ms.interval("-3s", "5s"), how="full")
    assert full.forwarded(100) == 93, "five seconds, and two of the pane"
    operator = full.member.operator
    assert operator.forwarded(LAST) == LAST
    assert operator.forwarded(TimeMark(None, is_idle=True)) == TimeMark(None, is_idle=True)
    assert JoinUnderTest(heap, as_of="left").forwarded(100) == 100
    assert JoinUnderTest(heap, window=ms.tumbling("10s")).forwarded(100) == 90
    assert JoinUnderTest(heap, keep="forever").forwarded(100) == 100


@pytest.mark.parametrize("how", ["inner", "full"])
def test_another_interval_finds_the_rows_of_the_old_one(join: Any, how: str) -> None:
    subject = join(within=ms.interval("-9s", "9s"), how=how)
    subject.left(("a", 1, 10), ("a", 2, 17)).right(("a", 3, 18), ("b", 4, 12))
    assert subject.taken() == [(1, 3), (2, 3)]
    subject.restart(within=ms.interval("-2s", "2s"), how=how)
    subject.right(("a", 5, 12)).last()
    assert subject.taken() == [(1, 5), *([(None, 4)] if how == "full" else [])]
    assert subject.kept() == {}


def test_after_the_last_watermark_a_job_may_go_on_with_more_rows(join: Any) -> None:
    subject = join(within=ms.interval("-1s", "1s"), how="left")
    subject.left(("a", 1, 10)).watermark(5).last()
    assert subject.taken() == [(1, None)]
    subject.restart()
    subject.left(("a", 2, 20)).right(("a", 3, 20))
    assert (subject.taken(), subject.late) == ([(2, 3)], [])


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [(1, 10)]),
        ("left", [(1, 10), (2, None), (3, None)]),
        ("right", [(1, 10), (None, 11)]),
        ("full", [(1, 10), (2, None), (3, None), (None, 11)]),
        ("semi", [(1,)]),
        ("anti", [(2,), (3,)]),
    ],
)
def test_rows_of_a_window_are_joined_when_it_is_complete(
    join: Any, how: str, expected: list[Any], restarts: bool
) -> None:
    subject = join(window=ms.tumbling("10s"), how=how)
    subject.left(("a", 1, 0), ("a", 2, 10), (None, 3, 2)).right(("a", 10, 9.999999), ("b", 11, 3))
    subject.watermark(9.999999)
    if restarts:
        subject.restart()
    assert subject.taken() == []
    subject.watermark(10)
    later = [row for row in expected if row[0] == 2]
    assert subject.taken() == sorted((row for row in expected if row not in later), key=str)
    if restarts:
        subject.restart()
    subject.left(("a", 4, 9))
    assert subject.late == [("late_left", 4)]
    assert subject.last().taken() == later
    assert subject.kept() == {}


def test_rows_are_joined_in_every_window_that_slides(join: Any) -> None:
    subject = join(window=ms.sliding("10s", every="5s"))
    subject.left(("a", 1, 7)).right(("a", 2, 9), ("a", 3, 12))
    subject.watermark(10)
    assert subject.taken() == [(1, 2)]
    subject.restart()
    subject.watermark(15)
    assert subject.taken() == [(1, 2), (1, 3)]
    subject.last()
    assert subject.taken() == []
    assert subject.kept() == {}


# ---------------------------------------------------------------- as of


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_left_row_is_joined_with_the_newest_one_that_is_not_newer(
    join: Any, how: str, restarts: bool
) -> None:
    subject = join(as_of="left", how=how)
    subject.right(("a", 10, 1), ("a", 11, 5), ("b", 12, 3))
    subject.left(("a", 1, 0.5), ("a", 2, 5), ("a", 3, 4.999999), ("b", 4, 9), ("c", 5, 2))
    subject.watermark(5)
    if restarts:
        subject.restart()
    alone = [(1, None), (5, None)] if how == "left" else []
    assert subject.taken() == sorted([(3, 10), *alone], key=str)
    # In time, and of just the time of a left row that waits.
    subject.right(("a", 13, 5)).watermark(5.000001)
    if restarts:
        subject.restart()
    assert subject.taken() == [(2, 13)]
    assert subject.watermark(100).taken() == [(4, 12)]
    if restarts:
        subject.restart()
    assert subject.kept() == {"newest": 2}
    subject.left(("a", 6, 200), ("a", 7, 99.9)).last()
    assert (subject.taken(), subject.late) == ([(6, 13)], [("late_left", 7)])


def test_what_is_older_than_the_age_is_not_joined_and_goes(join: Any) -> None:
    subject = join(as_of="left", how="left", max_age="8s")
    subject.right(("a", 10, 1)).left(("a", 1, 9), ("a", 2, 9.000001)).watermark(10)
    assert subject.taken() == [(1, 10), (2, None)]
    subject.restart()
    assert subject.kept() == {}, "panes are a second long"
    subject.right(("a", 11, 1.5))
    assert subject.late == [("late_right", 11)]


def test_a_right_row_that_comes_late_is_the_newest_for_those_that_follow(join: Any) -> None:
    subject = join(as_of="left")
    subject.right(("a", 10, 1)).watermark(10).right(("a", 11, 4)).watermark(11)
    subject.right(("a", 12, 2)).watermark(12)
    assert subject.left(("a", 1, 13)).last().taken() == [(1, 11)]


# ---------------------------------------------------------------- by the key alone


@pytest.mark.parametrize("restarts", [False, True])
def test_all_rows_of_a_key_are_joined(join: Any, restarts: bool) -> None:
    subject = join(keep="forever")
    for number in range(4):
        subject.left(("a", number, 0), ("b", 100 + number, 0))
        subject.right(("a", 10 + number, 0), (None, 99, 0))
        if restarts:
            subject.restart()
    assert subject.taken() == sorted(((n, 10 + m) for n in range(4) for m in range(4)), key=str)


def test_a_left_row_is_emitted_once_where_it_is_asked_whether_there_is_a_right_one(
    join: Any,
) -> None:
    subject = join(keep="forever", how="semi")
    subject.left(("a", 1, 0), ("b", 2, 0)).right(("a", 9, 0), ("a", 9, 0)).restart()
    subject.right(("a", 9, 0)).left(("a", 3, 0)).right(("a", 9, 0))
    assert subject.taken() == [(1,), (3,)]
    assert subject.kept()["right"] == 1, "one row of a key is enough"
    assert subject.right(("b", 9, 0)).restart().right(("b", 9, 0)).taken() == [(2,)]


def test_rows_go_when_their_time_is_over(join: Any) -> None:
    subject = join(ttl="80s")
    subject.left(("a", 1, 0))
    operator = subject.member.operator
    began = subject.clock.now
    assert not operator.is_due()
    assert operator.deadline() == pytest.approx(began + 90, abs=10)
    subject.clock.now += 80
    subject.right(("a", 2, 0))
    assert subject.taken() == [(1, 2)]
    subject.clock.now += 10
    assert operator.is_due()
    assert list(operator.on_clock()) == [None]
    assert subject.kept() == {"right": 1}
    assert not operator.is_due()


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"within": ms.interval("-5s", "5s"), "how": "full"}, [(1, 10), (2, 11), (3, None)]),
        ({"window": ms.tumbling("10s"), "how": "left"}, [(1, 10), (2, 11), (3, None)]),
        ({"as_of": "left", "how": "left"}, [(1, 10), (2, 11), (3, None)]),
        ({"keep": "forever"}, [(1, 10), (2, 11)]),
    ],
)
def test_keys_with_the_same_hash_are_told_apart(
    join: Any, options: dict[str, Any], expected: list[Any]
) -> None:
    modules = ("sides", "windowed", "as_of")
    names = [f"mainstay.runtime.operators.joins.{name}.words_for" for name in modules]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch(name, lambda keys: np.zeros(len(keys), np.int64)))
        subject = join(**options)
        subject.right(("a", 10, 1), ("b", 11, 1.5))
        subject.left(("a", 1, 2), ("b", 2, 3), ("c", 3, 4)).last()
        assert subject.taken() == expected

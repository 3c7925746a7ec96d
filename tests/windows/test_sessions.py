"""Sessions: which rows are one, when they are emitted, and what is late."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import GraphError, MainstayError
from mainstay.testing import LAST, Result, advance_clock, crash, idle, run, snapshot
from tests.windows.kit import click, clicks, emitted, output, s, shown, until, windowed

GAP = windowed(ms.session("5s"))


pytestmark = pytest.mark.usefixtures("backend")


# ---------------------------------------------------------------- which rows are one


@pytest.mark.parametrize(
    ("times", "sessions"),
    [
        pytest.param([0], [(0, 5, 1)], id="single"),
        pytest.param([0, 5], [(0, 10, 2)], id="exactly the gap apart"),
        pytest.param([0, 5.000001], [(0, 5, 1), (5.000001, 10.000001, 1)], id="more than the gap"),
        pytest.param([0, 1, 2], [(0, 7, 3)], id="consecutive"),
        pytest.param([2, 1, 0], [(0, 7, 3)], id="backwards"),
        pytest.param([0, 10, 5], [(0, 15, 3)], id="bridging"),
        pytest.param([0, 10, 7], [(0, 5, 1), (7, 15, 2)], id="joining the later of two"),
        pytest.param([0, 10, 3], [(0, 8, 2), (10, 15, 1)], id="joining the earlier of two"),
        pytest.param([0, 10, 20, 5, 15], [(0, 25, 5)], id="bridging three"),
        pytest.param([3, 3, 3], [(3, 8, 3)], id="identical"),
        pytest.param([-7, -3], [(-7, 2, 2)], id="before 1970"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("one_by_one", [False, True])
def test_rows_that_are_no_more_than_the_gap_apart_are_one_session(
    times: list[float], sessions: list[Any], one_by_one: bool
) -> None:
    elements: list[Any] = []
    for at in times:
        elements += [click("a", at), snapshot()] if one_by_one else [click("a", at)]
    found = output(GAP, elements)
    assert found == sorted([("a", start, end, n, n) for start, end, n in sessions], key=repr)


def test_keys_have_sessions_of_their_own() -> None:
    elements = [click("a", 0), click("b", 4), click("a", 6), click(None, 1), click("b", 8)]
    assert output(GAP, elements) == sorted(
        [("a", 0, 5, 1, 1), ("a", 6, 11, 1, 1), ("b", 4, 13, 2, 2), (None, 1, 6, 1, 1)], key=repr
    )


def test_all_aggregates_are_those_of_the_merged_sessions() -> None:
    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user")
        keyed.window(ms.session("5s")).aggregate(
            low=ms.min("amount"),
            high=ms.max("amount"),
            mean=ms.mean("amount"),
            first=ms.first("amount"),
            last=ms.last("amount"),
            every=ms.collect("amount"),
        ).sink(Memory(), uid="out")

    elements = [click("a", 0, 3), snapshot(), click("a", 10, 9), snapshot(), click("a", 5, None)]
    elements += [snapshot(), click("a", 6, 1)]
    assert output(build, elements) == [("a", 0, 15, 1, 9, 13 / 3, 3, 1, [3, 9, 1])]


def test_rows_are_reduced_by_session() -> None:
    def build(env: ms.Environment) -> None:
        rows = clicks(env).map(lambda row: row, "user string, at timestamp, amount long")
        rows.key_by("user").window(ms.session("5s")).reduce(max).sink(Memory(), uid="out")

    assert output(build, [click("a", 0, 3), click("a", 4, 2)]) == [("a", 0, 9, 3)]


def test_a_stream_without_a_key_has_sessions_too() -> None:
    def build(env: ms.Environment) -> None:
        found = clicks(env).window(ms.session("5s")).aggregate(n=ms.count())
        found.sink(Memory(), uid="out")

    elements = [click("a", 0), click("b", 4), click("a", 20)]
    assert output(build, elements, parallelism=2) == [(0, 9, 2), (20, 25, 1)]


# ---------------------------------------------------------------- when they are emitted


def test_a_session_is_emitted_at_its_end_before_the_watermark() -> None:
    elements = [
        click("a", 0),
        until(4.999999),
        click("a", 5),
        until(9.9),
        until(10),
        click("b", 11),
    ]
    result = run(GAP, {"clicks": elements}, parallelism=1)
    assert emitted(result) == [
        until(4.999999), until(9.9), ("a", 0, 10, 2, 2), until(10), ("b", 11, 16, 1, 1), LAST
    ]  # fmt: skip


def test_sessions_are_emitted_in_the_order_of_time() -> None:
    elements = [click(user, at) for user, at in [("c", 9), ("a", 2), ("b", 4), ("d", 0)]]
    result = run(GAP, {"clicks": [*elements, until(100)]}, parallelism=1)
    assert [row[0] for row in emitted(result)[:4]] == ["d", "a", "b", "c"]


def test_a_session_that_was_emitted_is_gone_and_a_row_in_time_begins_another() -> None:
    # It would touch the session that was emitted, and is not late: its own session ends later.
    elements = [click("a", 0), until(5), snapshot(), click("a", 4), crash(), until(20)]
    assert output(GAP, elements) == [("a", 0, 5, 1, 1), ("a", 4, 9, 1, 1)]
    assert output(GAP, elements, "late") == []


def test_sessions_that_are_open_at_the_end_are_emitted() -> None:
    assert output(GAP, [click("a", 0), until(2), idle()]) == [("a", 0, 5, 1, 1)]


# ---------------------------------------------------------------- late rows


def test_a_row_is_late_if_its_session_has_ended() -> None:
    elements = [click("a", 20), until(10), click("a", 5), click("a", 5.1), click("a", None)]
    build = windowed(ms.session("5s"))
    result = run(build, {"clicks": elements})
    assert sorted(shown(result.output("out"))) == [("a", 5.1, 10.1, 1, 1), ("a", 20, 25, 1, 1)]
    late = sorted(shown(result.output("late")), key=repr)
    assert late == sorted([("a", 5, 1), ("a", None, 1)], key=repr)


@pytest.mark.parametrize("together", [False, True])
def test_a_late_row_is_kept_where_it_joins_a_session_that_is_open(together: bool) -> None:
    # The row at 3 alone would be late at 10. The session from 8 to 13 takes it.
    between = [] if together else [snapshot()]
    elements = [click("a", 8), until(10), *between, click("a", 3), *between, click("a", -3)]
    assert output(GAP, elements) == [("a", 3, 13, 2, 2)]
    assert output(GAP, elements, "late") == [("a", -3, 1)]


@pytest.mark.parametrize("together", [False, True])
def test_what_is_late_does_not_depend_on_which_rows_come_in_one_batch(together: bool) -> None:
    # When the row at 3 comes, nothing is there that it could join.
    between = [] if together else [snapshot()]
    elements = [click("b", 0), until(10), click("a", 3), *between, click("a", 8)]
    assert output(GAP, elements) == [("a", 8, 13, 1, 1), ("b", 0, 5, 1, 1)]
    assert output(GAP, elements, "late") == [("a", 3, 1)]
    # Rows that are late join what rows before them have begun.
    elements = [until(10), click("a", 8), *between, click("a", 3), *between, click("a", -2)]
    assert output(GAP, elements) == [("a", -2, 13, 3, 3)]


def test_rows_within_the_lateness_are_taken_and_a_session_is_emitted_once() -> None:
    build = windowed(ms.session("5s"), lateness="10s")
    elements = [click("a", 0), until(14.9), click("a", 1), until(15), click("b", 0), until(16)]
    result = run(build, {"clicks": elements}, parallelism=1)
    assert emitted(result)[1:] == [until(15), ("a", 0, 6, 2, 2), until(16), LAST]
    assert shown(result.output("late")) == [("b", 0, 1)]


def test_updates_come_at_the_end_with_late_rows_and_when_none_is_taken_any_more() -> None:
    build = windowed(ms.session("5s"), lateness="10s", emit="update")
    elements: list[Any] = [click("a", 0), until(5), click("a", 1), until(6)]
    elements += [click("a", 0.5), snapshot(), until(16), until(30), click("b", 40), until(100)]
    result = run(build, {"clicks": elements}, parallelism=1)
    assert emitted(result) == [
        ("a", 0, 5, 1, 1, False), until(5), ("a", 0, 6, 2, 2, False), until(6),
        ("a", 0, 6, 3, 3, False), ("a", 0, 6, 3, 3, True), until(16), until(30),
        ("b", 40, 45, 1, 1, True), until(100), LAST,
    ]  # fmt: skip


def test_a_late_row_may_make_two_emitted_sessions_one() -> None:
    build = windowed(ms.session("5s"), lateness="20s", emit="update")
    elements = [click("a", 0), click("a", 10), until(15), crash(), click("a", 5), until(100)]
    assert output(build, elements) == [
        ("a", 0, 15, 3, 3, False), ("a", 0, 15, 3, 3, True),
        ("a", 0, 5, 1, 1, False), ("a", 10, 15, 1, 1, False),
    ]  # fmt: skip


# ---------------------------------------------------------------- gaps of rows


def dynamic(gap: Any) -> Any:
    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user")
        found = keyed.window(ms.session(gap)).aggregate(n=ms.count(), total=ms.sum("amount"))
        found.sink(Memory(), uid="out")

    return build


@pytest.mark.parametrize(
    "gap", [ms.col("amount"), lambda row: row.amount, lambda row: f"{row.amount}s"]
)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_rows_may_have_gaps_of_their_own(gap: Any, one_by_one: bool) -> None:
    elements: list[Any] = []
    # The second row covers the third, which ends before it. The last one is bridged to nothing.
    for each in [click("a", 0, 2), click("a", 10, 20), click("a", 12, 1), click("a", 2, 3),
                 click("a", 31, 1)]:  # fmt: skip
        elements += [each, snapshot()] if one_by_one else [each]
    found = output(dynamic(gap), elements)
    assert found == sorted([("a", 0, 5, 2, 5), ("a", 10, 30, 2, 21), ("a", 31, 32, 1, 1)], key=repr)


def test_a_gap_that_is_no_duration_is_refused() -> None:
    for gap, given in [(ms.col("amount"), 0), (lambda row: None, 1), (lambda row: "5 parsecs", 1)]:
        with pytest.raises(MainstayError, match="gap of a session"):
            run(dynamic(gap), {"clicks": [click("a", 0, given)]})
    with pytest.raises(GraphError, match="of type timestamp"):
        run(dynamic(ms.col("at")), {"clicks": [click("a", 0)]})


# ---------------------------------------------------------------- processing time


def processing(env: ms.Environment) -> None:
    rows = env.source(Rows("user string", []), uid="clicks")
    keyed = rows.key_by("user")
    keyed.window(ms.session("5s", time="processing")).aggregate(n=ms.count(), uid="windows").sink(
        Memory(), uid="out"
    )


def counts(result: Result) -> list[Any]:
    return [(user, n) for user, _, _, n in (e for e in emitted(result) if isinstance(e, tuple))]


def test_in_processing_time_a_session_ends_when_no_row_has_come_for_the_gap() -> None:
    elements = [("a",), advance_clock("3s"), ("a",), ("b",), advance_clock("4s"), ("a",)]
    elements += [advance_clock("4.9s"), ("b",), advance_clock("5s"), ("c",)]
    result = run(processing, {"clicks": elements}, parallelism=1)
    assert counts(result) == [("b", 1), ("a", 3), ("b", 1), ("c", 1)]


def test_in_processing_time_sessions_that_were_due_meanwhile_fire_after_a_restore() -> None:
    elements = [("a",), snapshot(), advance_clock("3s"), crash(), advance_clock("3s"), ("a",)]
    result = run(processing, {"clicks": elements}, parallelism=1)
    assert sorted(n for *_, n in result.output("out")) == [1, 1]


# ---------------------------------------------------------------- failures and rescales


def test_a_session_goes_on_after_a_crash() -> None:
    elements = [click("a", 0), snapshot(), click("a", 3), crash(), click("a", 10), snapshot()]
    elements += [click("a", 7), crash(), until(100)]
    assert output(GAP, elements, parallelism=2) == [("a", 0, 15, 4, 4)]


def test_early_results_are_refused() -> None:
    with pytest.raises(GraphError, match="fixed bounds"):
        run(windowed(ms.session("5s"), emit="early", every="1s"), {"clicks": []})


def test_late_rows_are_read_with_their_own_columns() -> None:
    elements = [click("b", 30), until(20), click("a", 1, 7)]
    result = run(GAP, {"clicks": elements})
    assert result.output("late") == [("a", s(1), 7)]

"""Functions that wait, as tables of what happens: rows, watermarks, the clock, and crashes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory
from mainstay.errors import GraphError, JobFailedError, UserFunctionError
from mainstay.testing import LAST, Watermark, advance_clock, crash, rows, run, snapshot
from tests.times import t

EVENT = "name string, at timestamp"
ANSWER = "name string, answer long"

CALLED: Counter[str] = Counter()
"""How often a function was called for each name. Workers of a simulation share it."""


@pytest.fixture(autouse=True)
def _nobody_was_called() -> None:
    CALLED.clear()


async def answered(row: Any) -> Any:
    CALLED[row.name] += 1
    return row.name, len(row.name)


def answered_by_a_thread(row: Any) -> Any:
    CALLED[row.name] += 1
    return row.name, len(row.name)


def answered_later(row: Any) -> Any:
    """A plain function whose result is awaited."""
    return answered(row)


async def down_at_first(row: Any) -> Any:
    CALLED[row.name] += 1
    if CALLED[row.name] < 3:
        raise ConnectionError("the server is down")
    return row.name, CALLED[row.name]


async def down(row: Any) -> Any:
    CALLED[row.name] += 1
    raise ConnectionError("the server is down")


def result_of(given: list[Any], function: Any = answered, **named: Any) -> Any:
    def build(env: ms.Environment) -> None:
        files = Files("./no-such-folder/events.csv", schema=EVENT)
        stream = env.source(files, uid="events", watermark=ms.Watermark("at"))
        stream.map_async(function, ANSWER, uid="ask", **named).sink(Memory(), uid="out")

    return run(build, {"events": given}, parallelism=1)


@pytest.mark.parametrize("function", [answered, answered_by_a_thread, answered_later])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_watermark_comes_behind_the_results_of_the_rows_before_it(
    function: Any, ordered: bool
) -> None:
    given = [("a", t(1)), Watermark(t(5)), ("bb", t(6)), Watermark(t(9))]
    result = result_of(given, function, ordered=ordered)
    assert result.elements("ask") == [("a", 1), Watermark(t(5)), ("bb", 2), Watermark(t(9)), LAST]


def test_the_end_of_input_waits_for_all_answers() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("name string", [("a",), ("bb",), ("ccc",)]), uid="events")
        stream.map_async(answered, ANSWER, capacity=1, uid="ask").sink(Memory(), uid="out")

    assert run(build, parallelism=1).output("out") == [("a", 1), ("bb", 2), ("ccc", 3)]


def test_a_call_that_fails_is_made_again_after_a_pause() -> None:
    given = [("a", t(1)), advance_clock("1s"), advance_clock("1s"), ("b", t(2))]
    assert result_of(given, down_at_first, retries=2).output("out") == [("a", 3), ("b", 3)]


def test_a_snapshot_does_not_wait_and_a_restored_job_calls_again() -> None:
    given = [("a", t(1)), snapshot(), crash(), advance_clock("1s"), advance_clock("1s")]
    result = result_of(given, down_at_first, retries=2)
    assert result.output("out") == [("a", 3)]
    assert len(result.attempts) == 2
    # The source had it behind it in the snapshot, so nobody else can have brought it back.
    assert result.state("ask", "in_flight_calls") == [[]]


@pytest.mark.parametrize("place", ["chained", "behind_a_gate"])
def test_a_marker_passes_where_there_is_no_room_for_rows(place: str) -> None:
    def build(env: ms.Environment) -> None:
        files = Files("./no-such-folder/events.csv", schema=EVENT)
        stream = env.source(files, uid="events")
        stream = stream if place == "chained" else stream.rebalance()
        asked = stream.map_async(down_at_first, ANSWER, capacity=1, retries=2, uid="ask")
        asked.sink(Memory(), uid="out")

    given = [("a", t(1)), snapshot(), crash(), advance_clock("1s"), advance_clock("1s")]
    result = run(build, {"events": given}, parallelism=1)
    assert result.output("out") == [("a", 3)]
    assert [attempt.restored_from is not None for attempt in result.attempts] == [False, True]


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_what_is_in_flight_is_state_of_the_operator_and_bounded(capacity: int) -> None:
    given = [("a", t(1)), ("b", t(2)), ("c", t(3))]

    def build(env: ms.Environment) -> None:
        files = Files("./no-such-folder/events.csv", schema=EVENT)
        stream = env.source(files, uid="events")
        named = {"retries": 99, "timeout": None, "capacity": capacity}
        stream.map_async(down, ANSWER, uid="ask", **named).sink(Memory(), uid="out")

    result = run(build, {"events": given}, parallelism=1, ends=False)
    assert result.output("out") == []
    [in_flight] = result.state("ask", "in_flight_calls")
    assert [tuple(row) for row in in_flight] == given[:capacity]


def test_without_an_answer_in_time_the_job_fails_and_names_the_row() -> None:
    with pytest.raises(UserFunctionError, match="has not answered within 10 s") as raised:
        result_of([("a", t(1)), advance_clock("11s")], down, retries=99)
    assert "operator 'ask'" in str(raised.value)
    assert "Row(name='a'" in str(raised.value)


def test_without_an_answer_in_time_it_goes_on_with_another_row() -> None:
    given = [("a", t(1)), ("b", t(2)), advance_clock("11s"), Watermark(t(3))]
    result = result_of(given, down, retries=99, on_timeout=lambda row: (row.name, -1))
    assert result.elements("ask") == [("a", -1), ("b", -1), Watermark(t(3)), LAST]


def test_an_error_names_the_row_and_how_often_it_was_tried() -> None:
    given = [("a", t(1)), advance_clock("1s"), advance_clock("1s")]
    with pytest.raises(UserFunctionError, match="ConnectionError: the server is down") as raised:
        result_of(given, down, retries=2)
    assert "Row(name='a'" in str(raised.value)
    assert "3 times in a row" in str(raised.value)


def test_a_row_that_does_not_fit_the_schema_names_the_operator() -> None:
    with pytest.raises(JobFailedError, match="operator 'ask', column 'answer'"):
        result_of([("a", t(1))], lambda row: (row.name, "many"))


# ---------------------------------------------------------------- mistakes


async def of_two(row: Any, other: Any) -> Any:
    return row


async def several(row: Any) -> Any:
    yield row


@pytest.mark.parametrize(
    ("function", "named", "why"),
    [
        (of_two, {}, "cannot be called with 1 argument"),
        (several, {}, "write return instead of yield"),
        (7, {}, "needs a function"),
        (answered, {"capacity": 0}, "capacity=0"),
        (answered, {"retries": -1}, "retries=-1"),
        (answered, {"ordered": "no"}, "must be True or False"),
        (answered, {"timeout": "0s"}, "timeout"),
        (answered, {"timeout": None, "on_timeout": tuple}, "without a timeout"),
        (answered, {"on_timeout": 7}, "needs a function"),
    ],
)
def test_what_makes_no_sense_is_refused(function: Any, named: Any, why: str) -> None:
    with pytest.raises(GraphError, match=why) as raised:
        result_of([], function, **named)
    assert "operator 'ask' (map_async)" in str(raised.value)


def test_map_says_what_takes_a_coroutine() -> None:
    env = ms.Environment(spark="embedded")
    with pytest.raises(GraphError, match="or call map_async"):
        env.source(rows("name string", []), uid="in").map(answered, ANSWER)

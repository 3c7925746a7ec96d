"""Spark's own tests of ``applyInPandasWithState`` (test_pandas_grouped_map_with_state.py), each
micro-batch as a slice, and what a timeout does."""

from __future__ import annotations

import json
import random
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import PySparkRuntimeError, PySparkValueError
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import mainstay as ms
from mainstay.errors import GraphError, UserFunctionError
from tests.processors.slices import START_MS, Slices, seconds

WORDS = [("hello",), ("this",)]
DRIVE: Any = "embedded"
"""What jobs run on; tests/spark has them on a session."""


def slices(
    function: Callable[..., Any],
    output: str = "key string, countAsString string",
    state: str = "c int",
    timeout: str = GroupStateTimeout.NoTimeout,
    schema: str = "value string",
    time: str | None = None,
) -> Slices:
    def build(keyed: Any) -> Any:
        return keyed.apply_in_pandas_with_state(function, output, state, "Update", timeout, uid="f")

    return Slices(schema, schema.split()[0], build, time=time)


def counting(rows: int) -> Callable[..., Any]:
    """Counts, asserts what Spark's tests assert, and yields so many rows a call."""

    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        assert isinstance(state, GroupState)
        total = sum(len(frame) for frame in frames)
        state.update((total,))
        assert state.get[0] == 1
        assert state.exists
        yield pd.DataFrame({"key": [key[0]] * rows, "countAsString": [str(total)] * rows})

    return function


@pytest.mark.parametrize("rows", [1, 2, 3, 0])
def test_basic_more_and_no_data(rows: int) -> None:
    run = slices(counting(rows))
    assert sorted(run.take(*WORDS)) == sorted([("hello", "1"), ("this", "1")] * rows)
    assert run.state("state", "this").c == 1


def test_no_state() -> None:
    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        assert isinstance(state, GroupState)
        assert not state.exists
        assert state.getOption is None
        with pytest.raises(PySparkValueError, match="STATE_NOT_EXISTS"):
            state.get  # noqa: B018
        yield pd.DataFrame({"key": [key[0], "foo"], "countAsString": ["100", "222"]})

    run = slices(function)
    assert sorted(run.take(*WORDS)) == [
        *[("foo", "222")] * 2,
        ("hello", "100"),
        ("this", "100"),
    ]
    assert run.state("state", "this") is None


def test_empty_frames() -> None:
    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        yield pd.DataFrame({"key": [], "countAsString": []})
        yield pd.DataFrame()
        yield pd.DataFrame({"key": [key[0]], "countAsString": ["1"]})

    assert sorted(slices(function).take(*WORDS)) == [("hello", "1"), ("this", "1")]


def test_null_in_an_output_column() -> None:
    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        yield pd.DataFrame({"key": [None], "countAsString": [str(sum(map(len, frames)))]})

    assert slices(function).take(*WORDS) == [(None, "1"), (None, "1")]


def test_an_integer_for_a_decimal() -> None:
    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        yield pd.DataFrame({"key": [key[0]], "n": [sum(map(len, frames))]})

    run = slices(function, output="key string, n decimal(10,2)")
    assert sorted(run.take(*WORDS)) == [("hello", Decimal("1.00")), ("this", Decimal("1.00"))]


def test_a_function_that_dies_now_and_then(tmp_path: Path) -> None:
    """Every key is counted exactly, although some calls end the program. The job is started again
    by itself."""
    chance = random.Random(5)
    letters = [[chance.choice(string.ascii_lowercase) for _ in range(100)] for _ in range(5)]
    files = tmp_path / "in"
    files.mkdir()
    for number, some in enumerate(letters):
        lines = "".join(json.dumps({"value": letter}) + "\n" for letter in some)
        (files / f"{number}.json").write_text(lines)
    calls = tmp_path / "calls"

    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        assert isinstance(state, GroupState)
        with calls.open("a") as file:
            file.write(".")
        if calls.stat().st_size in DEADLY_CALLS:
            sys.exit(1)
        count = (state.getOption or (0,))[0] + sum(map(len, frames))
        state.update((count,))
        yield pd.DataFrame({"value": [key[0]], "count": [count]})

    env = ms.Environment(
        spark=DRIVE,
        parallelism=2,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="20ms"),
        restart=ms.Restart(max_failures=len(DEADLY_CALLS), backoff="1ms"),
    )
    out = ms.connectors.Memory()
    keyed = env.source(ms.connectors.Files(files, schema="value string"), uid="in").key_by("value")
    keyed.apply_in_pandas_with_state(
        function, "value string, count long", "cnt long", "Append", "NoTimeout", uid="f"
    ).sink(out, uid="out")
    job = env.start("dying")
    assert job.wait(timeout=60) == "finished"
    assert calls.stat().st_size >= 26 + len(DEADLY_CALLS)
    expected = Counter(letter for some in letters for letter in some)
    assert dict(sorted(out.rows())) == dict(expected), "the last count of each letter"


DEADLY_CALLS = (3, 9, 17, 24)


def timing(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
    """Counts rows; a key that is quiet for ten seconds is told and forgotten."""
    if state.hasTimedOut:
        assert list(frames) == []
        yield pd.DataFrame({"key": [key[0]], "what": [f"gone after {state.get[0]}"]})
        state.remove()
        return
    n = (state.getOption or (0,))[0] + sum(map(len, frames))
    old = state.oldTimeoutTimestamp
    state.update((n,))
    state.setTimeoutDuration(10_000)
    yield pd.DataFrame({"key": [key[0]], "what": [f"{n} {old if old < 0 else old - START_MS}"]})


def test_a_timeout_by_the_wall_clock() -> None:
    run = slices(timing, "key string, what string", timeout="ProcessingTimeTimeout")
    assert run.take(("a",)) == [("a", "1 -1")]
    run.clock.now += 4
    assert run.take(("a",)) == [("a", "2 10000")]
    assert run.wait(10) == [], "Spark fires when the time has passed"
    assert run.wait(0.001) == [("a", "gone after 2")]
    assert run.state("state", "a") is None
    assert run.wait(60) == []
    assert run.take(("a",)) == [("a", "1 -1")]


def test_a_call_with_rows_clears_the_timeout() -> None:
    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        if next(frames, pd.DataFrame({"x": []}))["x"].tolist() == [1]:
            state.setTimeoutDuration(1000)
        yield pd.DataFrame({"key": [key[0]], "what": [str(state.hasTimedOut)]})

    run = slices(
        function,
        "key string, what string",
        timeout="ProcessingTimeTimeout",
        schema="key string, x int",
    )
    assert run.take(("a", 1)) == [("a", "False")]
    assert run.take(("a", 2)) == [("a", "False")]
    assert run.wait(60) == []


def test_a_timeout_by_event_time() -> None:
    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        if state.hasTimedOut:
            yield pd.DataFrame({"key": [key[0]], "what": [f"at {state.getCurrentWatermarkMs()}"]})
            return
        newest = max(frame["at"].max() for frame in frames)
        with pytest.raises(PySparkRuntimeError, match="CANNOT_WITHOUT"):
            state.setTimeoutDuration(5)
        if state.getCurrentWatermarkMs() > 0:
            with pytest.raises(PySparkValueError, match="INVALID_TIMEOUT_TIMESTAMP"):
                state.setTimeoutTimestamp(1)
        state.setTimeoutTimestamp((newest + timedelta(seconds=5)).to_pydatetime())
        yield pd.DataFrame({"key": [key[0]], "what": ["row"]})

    run = slices(
        function,
        "key string, what string",
        timeout="EventTimeTimeout",
        schema="key string, at timestamp",
        time="at",
    )
    assert run.take(("a", seconds(20)), ("b", seconds(30))) == [("a", "row"), ("b", "row")]
    assert run.watermark(25) == []
    assert run.watermark(25.001) == [("a", "at 25001")]
    assert run.take(("b", seconds(24)), ("b", seconds(32))) == [("b", "row")]
    assert run.operator.late_rows == 1
    assert run.watermark(37) == []
    assert run.watermark(40) == [("b", "at 40000")]


def test_a_value_that_does_not_fit_is_refused() -> None:
    def function(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        state.update(("abc",))
        return iter([])

    with pytest.raises(UserFunctionError, match=r"state 'state': field 'c': 'abc' .*int"):
        slices(function).take(("a",))


def test_an_unknown_timeout_is_refused() -> None:
    with pytest.raises(GraphError, match="NoTimeout"):
        slices(counting(1), timeout="ProcessingTime")


def test_event_time_needs_a_watermark() -> None:
    with pytest.raises(GraphError, match="watermark"):
        slices(counting(1), timeout="EventTimeTimeout", schema="key string, at timestamp")

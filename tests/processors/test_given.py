"""What functions are given as keys and as columns of DataFrames, as real queries have shown it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mainstay.spark.processors import building
from mainstay.spark.processors.settings import ValueSettings
from tests.processors.slices import START, Slices

STRUCT = "k struct<a:int,inner:struct<at:timestamp>>, n int"
GIVEN = [((1, (START,)), 1), ((None, None), 1), (None, 1)]


class Shows(StatefulProcessor):
    """Shows its key where rows come, and where a timer fires."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.handle.registerTimer(1)
        yield Row(text=repr(key), n=len(list(rows)))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield Row(text=f"timer {tuple(key)!r}", n=0)


class ShowsFrames(StatefulProcessor):
    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        frames = list(rows)
        text = f"{key!r} {' '.join(map(str, frames[0].dtypes))}"
        yield pd.DataFrame({"text": [text], "n": [sum(map(len, frames))]})


def shows_frames(key: Any, frames: Any, state: Any) -> Any:
    yield from ShowsFrames().handleInputRows(key, frames, None)


def in_rows(keyed: Any) -> Any:
    return keyed.transform_with_state(
        Shows(), "text string, n int", time_mode="ProcessingTime", uid="f"
    )


def in_frames(keyed: Any) -> Any:
    return keyed.transform_with_state(ShowsFrames(), "text string, n int", in_pandas=True, uid="f")


def in_function(keyed: Any) -> Any:
    return keyed.apply_in_pandas_with_state(shows_frames, "text string, n int", "n int", uid="f")


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ValueSettings("Asia/Tokyo")
    monkeypatch.setattr(building, "current_settings", lambda: settings)


def test_a_struct_in_a_key_is_a_dict_and_a_row_where_a_timer_fires() -> None:
    found = [text for text, _ in Slices(STRUCT, "k", in_rows).take(*GIVEN)]
    at = repr(START)
    assert found[:3] == [
        f"({{'a': 1, 'inner': {{'at': {at}}}}},)",
        "({'a': None, 'inner': None},)",
        "(None,)",
    ]
    assert sorted(found[3:]) == [
        "timer (None,)",
        f"timer (Row(a=1, inner=Row(at={START.replace(tzinfo=None)!r})),)",
        "timer (Row(a=None, inner=None),)",
    ]


@pytest.mark.parametrize("build", [in_frames, in_function])
def test_a_struct_in_a_key_is_a_dict_in_pandas(build: Any) -> None:
    found = {text.split(" object")[0] for text, _ in Slices(STRUCT, "k", build).take(*GIVEN)}
    assert found == {
        f"({{'a': 1, 'inner': {{'at': {START!r}}}}},)",
        "({'a': None, 'inner': None},)",
        "(None,)",
    }


def test_a_struct_beside_another_column_of_a_key_is_a_dict(tokyo: None) -> None:
    schema = "s struct<at:timestamp>, at timestamp, n int"
    row = ((START,), START, 1)
    ((text, _), *_) = Slices(schema, ("s", "at"), in_rows).take(row)
    key = eval(text, {"datetime": __import__("datetime"), "zoneinfo": __import__("zoneinfo")})
    inner = key[0]["at"]
    assert (inner.hour, key[1].hour) == (9, 9)
    assert inner == key[1] == START


@pytest.mark.parametrize("key", [("at",), ("at", "n")])
def test_a_time_in_the_key_of_a_timer_is_that_of_a_state(key: tuple[str], tokyo: None) -> None:
    """It has no zone, and is in the session's."""
    run = Slices("at timestamp, n int", key, in_rows)
    (_, (text, _)) = run.take((START, 1))
    assert text.startswith("timer (datetime.datetime(2026, 1, 1, 9, 0),")


def test_a_time_in_a_key_has_no_zone_in_pandas(tokyo: None) -> None:
    for build in (in_frames, in_function):
        ((text, _),) = Slices("at timestamp, n int", "at", build).take((START, 1))
        assert text.startswith("(Timestamp('2026-01-01 09:00:00'),)")
    naive = datetime(2026, 1, 1)
    ((text, _),) = Slices("at timestamp_ntz, n int", "at", in_frames).take((naive, 1))
    assert text.startswith("(Timestamp('2026-01-01 00:00:00'),)")


def test_a_key_that_is_not_a_number_is_one_key() -> None:
    run = Slices("k double, n int", "k", in_rows)
    nan = float("nan")
    assert run.take((nan, 1), (nan, 2), (None, 3))[:2] == [("(nan,)", 2), ("(None,)", 1)]


NUMBERS = "k tinyint, a smallint, b int, c bigint, d float, e double, f boolean"


def test_numbers_in_the_frames_of_a_processor_are_wide() -> None:
    """Spark makes them of Python's numbers, so a product that is more than an int does not
    overflow."""
    ((text, _),) = Slices(NUMBERS, "k", in_frames).take((1, 1, 1, 1, 1.5, 1.5, True))
    assert text == "(1,) int64 int64 int64 int64 float64 float64 bool"
    ((text, _),) = Slices(NUMBERS, "k", in_frames).take((1, *[None] * 6))
    assert text == "(1,) int64 float64 float64 float64 float64 float64 object"


def test_numbers_in_the_frames_of_a_function_have_their_types() -> None:
    ((text, _),) = Slices(NUMBERS, "k", in_function).take((1, 1, 1, 1, 1.5, 1.5, True))
    assert text == "(1,) int8 int16 int32 int64 float32 float64 bool"


@pytest.mark.parametrize("build", [in_frames, in_function])
def test_a_null_of_another_key_does_not_change_the_type_of_booleans(build: Any) -> None:
    run = Slices("k string, f boolean, g boolean", "k", build)
    found = [text for text, _ in run.take(("a", True, None), ("b", None, None), ("a", False, True))]
    assert found == ["('a',) object bool object", "('b',) object object object"]

"""What a processor is given and may give: rows, keys, states, results; and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ListState,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    ValueState,
)

import mainstay as ms
from mainstay.errors import GraphError, SchemaError, UserFunctionError
from mainstay.schema import to_schema
from mainstay.spark.processors import building
from mainstay.spark.processors.settings import ValueSettings
from tests.processors.slices import START, START_MS, Slices


class Doing(StatefulProcessor):
    """Does what a test says, with states that a test says."""

    def __init__(self, does: Callable[..., Any], declares: Any = None) -> None:
        self.does = does
        self.declares = declares

    def init(self, handle: Any) -> None:
        self.handle = handle
        if self.declares is not None:
            self.state = self.declares(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return self.does(self, key, rows, timerValues)


def slices(
    does: Callable[..., Any],
    declares: Any = None,
    *,
    schema: str = "key string, n long",
    output: Any = "text string",
    **options: Any,
) -> Slices:
    def build(keyed: Any) -> Any:
        return keyed.transform_with_state(Doing(does, declares), output, uid="f", **options)

    return Slices(schema, to_schema(schema).names[0], build)


def shown(
    does: Callable[..., Any], declares: Any = None, *, row: Any = ("a", 1), **more: Any
) -> str:
    """What a function of the processor and its rows gives, as text."""

    def call(self: Any, key: Any, rows: Any, timers: Any) -> Any:
        found = repr(does(self, key, list(rows)))
        yield pd.DataFrame({"text": [found]}) if more.get("in_pandas") else Row(text=found)

    ((text,),) = slices(call, declares, **more).take(row)
    return str(text)


def of_state(declares: Any, does: Callable[[Any], Any], **more: Any) -> str:
    return shown(lambda self, key, rows: does(self.state), declares, **more)


# ------------------------------------------------------------ rows and keys

TYPES = (
    "key string, at timestamp, day date, d decimal(6,2), b binary, a array<int>, "
    "m map<string,int>, s struct<x:int,y:string>"
)
VALUES = ("k", START, date(2026, 1, 2), Decimal("1.50"), b"\x00", [1], {"p": 2}, (3, "q"))


def test_rows_have_the_types_of_spark() -> None:
    text = shown(lambda self, key, rows: rows[0], schema=TYPES, row=VALUES)
    assert text == (
        "Row(key='k', at=datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), "
        "day=datetime.date(2026, 1, 2), d=Decimal('1.50'), b=b'\\x00', a=[1], m=[('p', 2)], "
        "s={'x': 3, 'y': 'q'})"
    )


def test_frames_have_the_types_of_spark() -> None:
    text = shown(
        lambda self, key, frames: (
            frames[0].dtypes.astype(str).tolist(),
            frames[0].iloc[0].tolist(),
        ),
        schema=TYPES,
        row=VALUES,
        in_pandas=True,
    )
    types = ["object", "datetime64[ns]", *["object"] * 6]
    assert text.startswith(f"({types}, ['k', Timestamp('2026-01-01 00:00:00'), datetime.date(")
    assert text.endswith("b'\\x00', array([1], dtype=int32), {'p': 2}, {'x': 3, 'y': 'q'}])")


def test_a_row_is_one_of_pyspark() -> None:
    def looked(self: Any, key: Any, rows: Any) -> Any:
        (row,) = rows
        return (
            isinstance(row, Row),
            row.n,
            row["n"],
            row[1],
            row.asDict(),
            "n" in row,
            row == ("a", 1),
        )

    assert shown(looked) == "(True, 1, 1, 1, {'key': 'a', 'n': 1}, True, True)"


def test_names_that_are_no_identifiers_stay() -> None:
    schema = "`my key` string, class long, `count` long"
    names = ["my key", "class", "count"]
    row = shown(
        lambda self, key, rows: (rows[0].__fields__, rows[0]["count"]),
        schema=schema,
        row=("a", 1, 2),
    )
    assert row == f"({names}, 2)"
    frame = shown(
        lambda self, key, rows: rows[0].columns.tolist(),
        schema=schema,
        row=("a", 1, 2),
        in_pandas=True,
    )
    assert frame == str(names)


def test_a_frame_may_be_changed_and_is_numbered_from_zero() -> None:
    def does(self: Any, key: Any, frames: Any, timers: Any) -> Any:
        for frame in frames:
            assert frame.index.tolist() == list(range(len(frame)))
            frame["n"] += 1
            yield pd.DataFrame({"text": [str(frame["n"].tolist())]})

    run = slices(does, in_pandas=True)
    assert run.take(("a", 1), ("b", 5), ("a", 2)) == [("[2, 3]",), ("[6]",)]


def test_a_null_among_whole_numbers_of_a_key_is_none_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def does(self: Any, key: Any, frames: Any, timers: Any) -> Any:
        yield pd.DataFrame({"text": [f"{key} {sum(map(len, frames))}"]})

    run = slices(does, schema="key int, n long", in_pandas=True)
    assert run.take((1, 1), (None, 1), (None, 2)) == [("(1,) 1",), ("(None,) 2",)]


@pytest.mark.parametrize(
    ("limit", "calls"),
    [
        ({"rows_per_frame": 1}, [1, 1, 1]),
        ({"rows_per_frame": 2}, [2, 1]),
        ({"rows_per_frame": -1}, [3]),
        ({"bytes_per_frame": 2}, [1, 1, 1]),
        ({"bytes_per_frame": 1 << 20}, [3]),
        ({"bytes_per_frame": -1}, [3]),
        ({"bytes_per_frame": 1 << 20, "rows_per_frame": 2}, [2, 1]),
    ],
)
def test_18_19_frames_have_so_many_rows_and_bytes_at_most(
    limit: dict[str, int], calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "current_settings", lambda: ValueSettings(**limit))

    def does(self: Any, key: Any, frames: Any, timers: Any) -> Any:
        yield pd.DataFrame({"text": [str([len(frame) for frame in frames])]})

    assert slices(does, in_pandas=True).take(*[("a", 1)] * 3) == [(str(calls),)]


@pytest.mark.parametrize("in_pandas", [False, True])
def test_times_are_in_the_zone_of_the_session(
    in_pandas: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = ValueSettings("Asia/Tokyo")
    monkeypatch.setattr(building, "current_settings", lambda: zone)

    def does(self: Any, key: Any, rows: Any, timers: Any) -> Any:
        (row,) = rows
        at = row["at"].iloc[0] if in_pandas else row.at
        hour = at.hour
        self.state.update((datetime(2026, 1, 1, 9),))
        assert self.state.get() == (datetime(2026, 1, 1, 9),)
        back = datetime(2026, 1, 1, 18)
        yield (
            pd.DataFrame({"hour": [hour], "at": [back]}) if in_pandas else Row(hour=hour, at=back)
        )

    run = slices(
        does,
        lambda handle: handle.getValueState("at", "at timestamp"),
        schema="key string, at timestamp",
        output="hour int, at timestamp",
        in_pandas=in_pandas,
    )
    # Midnight in UTC is nine in Tokyo, and eighteen there is nine here.
    ((hour, at),) = run.take(("a", START))
    assert (hour, at) == (9, START + timedelta(hours=9))
    assert run.state("at", "a").at == START


# ------------------------------------------------------------ states


def value(schema: str) -> Callable[[Any], Any]:
    return lambda handle: handle.getValueState("v", schema)


def test_states_and_handle_are_those_of_pyspark() -> None:
    def declares(handle: Any) -> Any:
        assert isinstance(handle, StatefulProcessorHandle)
        return (
            handle.getValueState("v", "n long"),
            handle.getListState("l", "n long"),
            handle.getMapState("m", "k string", "n long"),
        )

    kinds = (ValueState, ListState, MapState)
    assert of_state(declares, lambda states: all(map(isinstance, states, kinds))) == "True"


@pytest.mark.parametrize(
    ("given", "schema", "back"),
    [
        ((1,), "n int", "(1,)"),
        ([1], "n int", "(1,)"),
        (Row(x=1), "n int", "(1,)"),
        ((np.int64(4),), "n int", "(4,)"),
        ((np.float64(0.5), None), "x double, y string", "(0.5, None)"),
        (
            (pd.Timestamp("2026-01-01 10:00"),),
            "at timestamp",
            "(datetime.datetime(2026, 1, 1, 10, 0),)",
        ),
        (
            (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),),
            "at timestamp",
            "(datetime.datetime(2026, 1, 1, 0, 0),)",
        ),
        ((7,), "d decimal(5,2)", "(Decimal('7.00'),)"),
        (((1, "x"),), "s struct<a:int,b:string>", "(Row(a=1, b='x'),)"),
        (({"b": "x"},), "s struct<a:int,b:string>", "(Row(a=None, b='x'),)"),
        ((np.array([1, 2]),), "a array<long>", "([1, 2],)"),
        (({"k": [1]},), "m map<string,array<int>>", "({'k': [1]},)"),
        ("text", "s string", "('text',)"),
    ],
)
def test_a_value_comes_back_as_spark_gives_it(given: Any, schema: str, back: str) -> None:
    def does(state: Any) -> Any:
        state.update(given)
        return state.get()

    assert of_state(value(schema), does) == back


@pytest.mark.parametrize(
    ("given", "schema", "message"),
    [
        (("abc",), "n int", r"state 'v': field 'n': 'abc' \(str\) .*int"),
        ((1.5,), "n int", "field 'n': 1.5"),
        ((2**40,), "n int", "1099511627776"),
        ((True,), "n int", "True"),
        ((1, 2), "n int", r"\(1, 2\) .*struct<n:int>"),
        ({"n": 1}, "n int", "does not fit"),
        (6, "n int", "6"),
        ((None,), "n int NOT NULL", "NOT NULL"),
        (("x",), "a array<string>", "'x'"),
        ("ab", "a string, b string", "'ab'"),
        (({"z": 1},), "s struct<a:int>", "'z'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(given: Any, schema: str, message: str) -> None:
    with pytest.raises(UserFunctionError, match=f"Error updating value state: .*{message}"):
        of_state(value(schema), lambda state: state.update(given))


def test_none_is_no_value() -> None:
    with pytest.raises(UserFunctionError, match="TypeError"):
        of_state(value("n int"), lambda state: state.update(None))


@pytest.mark.parametrize("method", ["put", "appendList"])
def test_an_empty_list_is_refused(method: str) -> None:
    with pytest.raises(UserFunctionError, match=r"EMPTY_LIST_VALUE.*clear\(\)"):
        of_state(
            lambda handle: handle.getListState("l", "n int"),
            lambda state: getattr(state, method)([]),
        )


def test_a_key_of_a_map_may_have_nulls_and_values_are_rows() -> None:
    def does(state: Any) -> Any:
        state.updateValue((None, 1), ("x", 2))
        found = state.getValue((None, 1))
        assert isinstance(found, Row)
        return found.name, list(state.iterator()), state.getValue((1, None))

    text = of_state(
        lambda handle: handle.getMapState("m", "a int, b int", "name string, n int"), does
    )
    assert text == "('x', [((None, 1), ('x', 2))], None)"


def test_states_are_declared_in_init_alone() -> None:
    with pytest.raises(UserFunctionError, match="INVALID_HANDLE_STATE"):
        shown(lambda self, key, rows: self.handle.getValueState("late", "n int"))


@pytest.mark.parametrize(
    ("declares", "message"),
    [
        (value("int"), "Error initializing value state: state 'v': .*: write \"value int\""),
        (value("n unknown"), "unknown"),
        (lambda handle: handle.getValueState("", "n int"), "is no name of a state"),
        (lambda handle: handle.getValueState("$x", "n int"), "is no name of a state"),
        (lambda handle: handle.getListState("fired_times", "n int"), "Mainstay itself"),
        (
            lambda handle: handle.getValueState("v", "n int", 1000),
            "INCORRECT_TIME_MODE_TO_ASSIGN_TTL",
        ),
        (lambda handle: handle.getValueState("v", "n int", -1), "TTL_DURATION_MUST_BE_POSITIVE"),
        (lambda handle: handle.getMapState("m", "k array<int>", "n int"), "map key"),
        (lambda handle: handle.getValueState("v", 5), "give a StructType or DDL"),
        (lambda handle: handle.registerTimer(5), "INVALID_HANDLE_STATE"),
        (lambda handle: handle.getValueState("v", "n int").get(), "has no key yet"),
        (lambda handle: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_declaration_that_is_wrong_is_refused_when_the_graph_is_built(
    declares: Any, message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        slices(lambda *_: iter([]), declares)


def test_a_ttl_of_zero_is_none() -> None:
    run = slices(lambda *_: iter([]), lambda handle: handle.getValueState("v", "n int", 0))
    assert run.spec.states[0].ttl is None


# ------------------------------------------------------------ results


def gives(result: Any, output: str = "a long, b string", **options: Any) -> Any:
    return slices(lambda *_: iter([result]), output=output, **options).take(("k", 1))


def test_rows_are_taken_by_name() -> None:
    assert gives(Row(b="x", a=1)) == [(1, "x")]
    assert gives(Row(a=1, more=2)) == [(1, None)]


@pytest.mark.parametrize("result", [(1, "x"), {"a": 1, "b": "x"}, Row(1, "x"), None, 5])
def test_what_is_no_row_with_names_is_refused(result: Any) -> None:
    with pytest.raises((SchemaError, UserFunctionError), match=r"yield Row\(a=..., b=...\)"):
        gives(result)


def test_a_result_of_another_type_is_refused() -> None:
    with pytest.raises((SchemaError, UserFunctionError), match=r"column 'a'.*'x'.*long"):
        gives(Row(a="x", b="y"))


@pytest.mark.parametrize("result", [None, 5, "text"])
def test_what_is_no_iterator_is_refused(result: Any) -> None:
    with pytest.raises(SchemaError, match=r"operator 'f': handleInputRows gave .*no iterator"):
        slices(lambda *_: result).take(("k", 1))


def test_a_frame_that_is_returned_is_no_iterator() -> None:
    frame = pd.DataFrame({"text": ["a"]})
    with pytest.raises(SchemaError, match=r"\(DataFrame\), which is no iterator. Yield what"):
        slices(lambda *_: frame, in_pandas=True).take(("k", 1))


def test_frames_are_taken_by_name_or_by_place() -> None:
    frame = pd.DataFrame({"b": ["x", None], "a": [1, 2]})
    assert gives(frame, in_pandas=True) == [(1, "x"), (2, None)]
    assert gives(pd.DataFrame([[1, "x"]]), in_pandas=True) == [(1, "x")]
    assert gives(pd.DataFrame(), in_pandas=True) == []
    with pytest.raises(UserFunctionError, match="no column 'b'"):
        gives(pd.DataFrame({"a": [1]}), in_pandas=True)
    with pytest.raises(UserFunctionError, match="2 columns 'a'"):
        gives(pd.DataFrame([[1, 2, "x"]], columns=["a", "a", "b"]), in_pandas=True)
    with pytest.raises((SchemaError, UserFunctionError), match="1 columns, and the schema has 2"):
        gives(pd.DataFrame([[1]]), in_pandas=True)
    with pytest.raises((SchemaError, UserFunctionError), match="Invalid return type"):
        gives(Row(a=1, b="x"), in_pandas=True)
    with pytest.raises((SchemaError, UserFunctionError), match="Failed to convert"):
        gives(pd.DataFrame({"a": [1.5], "b": ["x"]}), in_pandas=True)


def test_17_a_whole_number_fits_a_decimal() -> None:
    """Spark takes it where a setting says so; nothing is lost by it."""
    frame = pd.DataFrame({"d": [12345]})
    assert gives(frame, "d decimal(10,2)", in_pandas=True) == [(Decimal("12345.00"),)]


def test_large_whole_numbers_keep_their_digits_beside_nulls() -> None:
    def does(*_: Any) -> Any:
        yield pd.DataFrame({"a": [2**53 + 1]})
        yield pd.DataFrame({"a": [None]})

    assert slices(does, output="a long", in_pandas=True).take(("k", 1)) == [(2**53 + 1,), (None,)]


# ------------------------------------------------------------ timers


def test_timers_for_the_past_fire_after_the_slice_and_do_not_loop() -> None:
    class Past(Doing):
        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            at = expiredTimerInfo.getExpiryTimeInMs()
            self.handle.registerTimer(at - 1)
            self.handle.registerTimer(at)  # its own time, which is deleted when it has fired
            yield Row(text=str(at))

    def does(self: Any, key: Any, rows: Any, timers: Any) -> Any:
        now = timers.getCurrentProcessingTimeInMs()
        assert now == START_MS + 1000 * len(seen_at)
        for at in (0, 0, now - 5, now):
            self.handle.registerTimer(at)
        assert sorted(self.handle.listTimers()) == [0, now - 5, now]
        self.handle.deleteTimer(now)
        self.handle.deleteTimer(12345)
        yield Row(text="row")

    seen_at: list[int] = []

    def build(keyed: Any) -> Any:
        return keyed.transform_with_state(
            Past(does), "text string", time_mode="ProcessingTime", uid="f"
        )

    run = Slices("key string, n long", "key", build)
    past = START_MS - 5
    assert [row[0] for row in run.take(("k", 1))] == ["row", "0", str(past)]
    assert run.ring() == [], "what a handler sets waits for the next pass"
    assert [row[0] for row in run.wait(0.02)] == ["-1", str(past - 1)]
    assert run.operator.timer_counts == (2, 4)


@pytest.mark.parametrize("at", [1e3, "soon", 10**18])
def test_what_is_no_time_is_refused(at: Any) -> None:
    with pytest.raises(UserFunctionError, match="Error register timer"):
        shown(lambda self, key, rows: self.handle.registerTimer(at), time_mode="ProcessingTime")


# ------------------------------------------------------------ the graph


def refused(*arguments: Any, **options: Any) -> str:
    env = ms.Environment(spark="embedded")
    keyed = env.source(ms.connectors.Rows("key string, n long", []), uid="in").key_by("key")
    with pytest.raises(GraphError) as error:
        keyed.transform_with_state(*arguments, uid="f", **options)
    return str(error.value)


def test_what_is_no_processor_is_refused() -> None:
    assert "give it an instance: Doing(...)" in refused(Doing, "a int")
    assert "needs an instance of a subclass" in refused(ms.KeyedProcess(), "a int")
    assert "needs the schema" in refused(Doing(lambda: None))
    assert "cannot be pickled" in refused(Doing(n for n in range(3)), "a int")  # type: ignore[arg-type]


def test_modes_are_those_of_spark() -> None:
    good = Doing(lambda *_: iter([]))
    assert "UNKNOWN_TIME_MODE" in refused(good, "a int", time_mode="Event")
    assert "all results anew with every batch" in refused(good, "a int", output_mode="complete")
    said = refused(good, "a int", time_mode="EventTime")
    assert "no source before it has a watermark" in said
    assert 'watermark=ms.Watermark("at"), with a column of type timestamp.' in said
    assert 'Say time_mode="EventTime"' in refused(good, "a int", on="n")
    assert "there is no column 'at'" in refused(good, "a int", event_time_column="at")


def test_states_are_known_before_the_job_starts() -> None:
    env = ms.Environment(spark="embedded")
    keyed = env.source(ms.connectors.Rows("key string, n long", []), uid="in").key_by("key")
    processor = Doing(lambda *_: iter([]), value("n long"))
    out = keyed.transform_with_state(processor, "a int", time_mode="ProcessingTime", uid="f")
    out.sink(ms.connectors.Memory(), uid="out")
    text = str(env.explain())
    assert "v" in text
    assert "struct<n:long>" in text
    assert "processing_timers" in text
    assert not hasattr(processor, "state"), "init is run on a copy"


ALONE = """
import sys
sys.modules["google.protobuf"] = sys.modules["google"] = None
import mainstay as ms
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
class Count(StatefulProcessor):
    def init(self, handle):
        self.n = handle.getValueState("n", "n long")
    def handleInputRows(self, key, rows, timerValues):
        n = (self.n.get() or (0,))[0] + sum(1 for _ in rows)
        self.n.update((n,))
        yield Row(key=key[0], n=n)
env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(sys.argv[1]))
out = ms.connectors.Memory()
rows = env.source(ms.connectors.Rows("key string", [("a",), ("b",), ("a",)]), uid="in")
rows.key_by("key").transform_with_state(Count(), "key string, n long", uid="f").sink(out, uid="out")
assert env.start("alone").wait() == "finished"
from pyspark import SparkContext
assert SparkContext._gateway is None, "a JVM was started"
print(max(out.rows(), key=lambda row: row[1]))
"""


def test_neither_a_session_nor_protobuf_is_needed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "('a', 2)", done.stderr


class Misfit(StatefulProcessor):
    """Gives its state a text where a number is declared."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("n", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.state.update(("a",))
        return iter([])


def test_no_restart_heals_a_value_that_does_not_fit(tmp_path: Path) -> None:
    env = ms.Environment(
        spark="embedded",
        snapshots=ms.Snapshots(tmp_path),
        restart=ms.Restart(max_failures=3, backoff="10ms"),
    )
    keyed = env.source(ms.connectors.Rows("k string", [("x",)]), uid="in").key_by("k")
    keyed.transform_with_state(Misfit(), "k string", uid="f").sink(
        ms.connectors.Memory(), uid="out"
    )
    job = env.start("misfit")
    with pytest.raises(UserFunctionError, match="Error updating value state: state 'n'"):
        job.wait(60)
    assert len(job.attempts()) == 1

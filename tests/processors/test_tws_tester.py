"""The processors of Spark's test_tws_tester.py, beside Spark's own ``TwsTester`` on the same rows.

What that file tests of the tester alone has no counterpart (``acceptance`` names it).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row

import mainstay as ms
from tests.processors import processors as p
from tests.processors.slices import (
    START_MS,
    VARIANTS,
    InPandas,
    InRows,
    Slices,
    seconds,
    variant,
)

TwsTester = pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark has TwsTester since 4.2"
).TwsTester
INITIAL = "key string, initial_count long"


class RunningCount(p.Base):
    output = "key string, count long"

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "value long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = (self.count.get() or (0,))[0] + len(self.values(rows, "value"))
        self.count.update((count,))
        yield self.out(key=key[0], count=count)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.count.update((self.initial(initialState, "initial_count")[0],))


class TopK(p.Base):
    output = "key string, score double"
    k = 2

    def init(self, handle: Any) -> None:
        self.top = handle.getListState("topK", "value double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        scores = [each[0] for each in self.top.get()] + self.values(rows, "score")
        kept = sorted(scores, reverse=True)[: self.k]
        self.top.put([(each,) for each in kept])
        for score in kept:
            yield self.out(key=key[0], score=score)


class WordFrequency(p.Base):
    output = "key string, word string, count long"

    def init(self, handle: Any) -> None:
        self.words = handle.getMapState("frequencies", "word string", "count long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for word in self.values(rows, "word"):
            found = self.words.getValue((word,))
            count = 1 + (found[0] if found else 0)
            self.words.updateValue((word,), (count,))
            yield self.out(key=key[0], word=word, count=count)


class SessionTimeout(p.Base):
    """Tells of keys that were quiet for ten seconds."""

    output = "key string, result string"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.last = handle.getValueState("lastSeen", "timestamp long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for at in list(self.handle.listTimers()):
            self.handle.deleteTimer(at)
        now = timerValues.getCurrentProcessingTimeInMs()
        self.handle.registerTimer(now + 10000)
        self.last.update((now,))
        for value in self.values(rows, "value"):
            yield self.out(key=key[0], result=f"received:{value}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        self.last.clear()
        at = expiredTimerInfo.getExpiryTimeInMs() - START_MS
        yield self.out(key=key[0], result=f"session-expired@{at}")


class EventTimeSession(p.Base):
    output = "key string, result string"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.last = handle.getValueState("lastEvent", "timestamp long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for at in self.values(rows, "at"):
            if self.last.exists():
                self.handle.deleteTimer(self.last.get()[0] + 5000)
            self.last.update((int(at.timestamp() * 1000),))
            self.handle.registerTimer(int(at.timestamp() * 1000) + 5000)
            yield self.out(key=key[0], result=f"received@{int(at.timestamp())}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        watermark = timerValues.getCurrentWatermarkInMs()
        yield self.out(key=key[0], result=f"expired@{watermark}")
        self.last.clear()


class EventTimeCount(RunningCount):
    """Counts rows that are in time."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = (self.count.get() or (0,))[0] + len(self.values(rows, "at"))
        self.count.update((count,))
        yield self.out(key=key[0], count=count)


class AllMethods(p.Base):
    """Does what a row says, and yields what comes of it."""

    output = "key string, result string"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "value long")
        self.list = handle.getListState("list", "value string")
        self.map = handle.getMapState("map", "key string", "value long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        now = timerValues.getCurrentProcessingTimeInMs()
        for command in self.values(rows, "command"):
            yield self.out(key=key[0], result=f"{command}: {self.done(command, now)}")

    def done(self, command: str, now: int) -> str:
        name, _, rest = command.partition(" ")
        words = rest.split()
        match name:
            case "value":
                return self.on_value(words)
            case "list":
                return self.on_list(words)
            case "map":
                return self.on_map(words)
            case _:
                return self.on_timer(name, words, now)

    def on_value(self, words: list[str]) -> str:
        match words:
            case ["set", number]:
                self.value.update((int(number),))
            case ["add", number]:
                self.value.update(((self.value.get() or (0,))[0] + int(number),))
            case ["null"]:
                self.value.update((None,))
            case ["clear"]:
                self.value.clear()
        return f"{self.value.exists()} {self.value.get()}"

    def on_list(self, words: list[str]) -> str:
        match words:
            case ["put", *given]:
                self.list.put([(each,) for each in given])
            case ["append", one]:
                self.list.appendValue((one,))
            case ["extend", *given]:
                self.list.appendList([(each,) for each in given])
            case ["clear"]:
                self.list.clear()
        return f"{self.list.exists()} {list(self.list.get())}"

    def on_map(self, words: list[str]) -> str:
        match words:
            case ["put", name, number]:
                self.map.updateValue((name,), (int(number),))
            case ["remove", name]:
                self.map.removeKey((name,))
            case ["get", name]:
                found = self.map.getValue((name,))
                return f"{found and tuple(found)} {self.map.containsKey((name,))}"
            case ["clear"]:
                self.map.clear()
        pairs = sorted(self.map.iterator())
        assert sorted(self.map.keys()) == [each for each, _ in pairs]
        assert sorted(self.map.values()) == sorted(each for _, each in pairs)
        return str(pairs)

    def on_timer(self, name: str, words: list[str], now: int) -> str:
        if name == "timer":
            self.handle.registerTimer(now + int(words[0]))
        elif name == "untimer":
            self.handle.deleteTimer(now + int(words[0]))
        return str(sorted(at - START_MS for at in self.handle.listTimers()))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        at, now = expiredTimerInfo.getExpiryTimeInMs(), timerValues.getCurrentProcessingTimeInMs()
        # Nothing that is due already: the tester fires that when time is next moved, and a timer
        # that was deleted by one before it, too.
        if at % 3 == 0:
            self.handle.registerTimer(now + 2 + at % 7)
        if at % 5 == 0:
            self.handle.deleteTimer(now + 10)
        self.value.update((at,))
        left = sorted(each - START_MS for each in self.handle.listTimers())
        yield self.out(key=key[0], result=f"fired {at - START_MS} at {now - START_MS}: {left}")


class Both:
    """A processor on Mainstay and in Spark's tester; what both give is the same."""

    def __init__(
        self, processor: type, how: type, columns: str, initial: Any = None, **options: Any
    ) -> None:
        made, self.in_pandas = variant(processor, how), how.in_pandas
        self.mode = options.get("time_mode", "None")
        self.names = [each.split()[0] for each in columns.split(", ")]
        extractor = None
        if self.mode == "EventTime":
            extractor = lambda row: int(row["at"].timestamp() * 1000)  # noqa: E731
        first = {} if initial is None else self._initial(initial)
        self.tester = TwsTester(made(), timeMode=self.mode, eventTimeExtractor=extractor, **first)
        if self.mode == "ProcessingTime":
            self.tester.setProcessingTime(START_MS)

        def build(keyed: Any, first: Any = None) -> Any:
            return keyed.transform_with_state(
                made(),
                made.output,
                in_pandas=self.in_pandas,
                uid="f",
                initial_state=first,
                **options,
            )

        def source(env: Any) -> Any:
            return env.source(ms.connectors.Rows(INITIAL, []), uid="initial")

        time = "at" if self.mode == "EventTime" else None
        has_initial = None if initial is None else source
        self.run = Slices(columns, "key", build, time=time, initial=has_initial)
        if initial is not None:
            if initial:
                self.run.take(*initial, port=1)
            self.run.end_port(1)

    def _initial(self, initial: Any) -> Any:
        """The initial state as the tester takes it; it has an argument for each variant."""
        if self.in_pandas:
            frames = [(key, pd.DataFrame({"initial_count": [n]})) for key, n in initial]
            return {"initialStatePandas": frames}
        return {"initialStateRow": [(key, Row(initial_count=n)) for key, n in initial]}

    def take(self, *rows: Any) -> list[tuple[Any, ...]]:
        expected: list[tuple[Any, ...]] = []
        for key in dict.fromkeys(row[0] for row in rows):
            some = [dict(zip(self.names, row, strict=True)) for row in rows if row[0] == key]
            if self.in_pandas:
                expected += _tuples(self.tester.testInPandas(key, pd.DataFrame(some)))
            else:
                expected += _tuples(self.tester.test(key, [Row(**each) for each in some]))
        found = self.run.take(*rows)
        assert found == expected
        return found

    def wait(self, by_s: float) -> list[tuple[Any, ...]]:
        found = self.run.wait(by_s)
        now_ms = int(self.run.clock.wall() * 1000)
        expected = _tuples(self.tester.setProcessingTime(now_ms))
        assert sorted(found, key=str) == sorted(expected, key=str)
        return found

    def watermark(self, at_s: int) -> list[tuple[Any, ...]]:
        found = self.run.watermark(at_s)
        assert sorted(found) == sorted(_tuples(self.tester.setWatermark(at_s * 1000)))
        return found


def _tuples(found: Any) -> Iterable[tuple[Any, ...]]:
    if isinstance(found, pd.DataFrame):
        return list(found.itertuples(index=False, name=None))
    return [tuple(row) for row in found]


@pytest.mark.parametrize("how", VARIANTS)
def test_running_count(how: type) -> None:
    both = Both(RunningCount, how, "key string, value string")
    found = [both.take(*[(key, "x")] * n)[0][1] for key, n in (("a", 1), ("b", 2), ("a", 1))]
    assert found == [1, 2, 2]
    assert both.take(*[("a", "x")] * 2, ("b", None)) == [("a", 4), ("b", 3)]


@pytest.mark.parametrize("how", VARIANTS)
def test_row_by_row(how: type) -> None:
    both = Both(RunningCount, how, "key string, value string")
    keys = ["a", "b", "a", "b", "a", "a", "c"]
    assert [both.take((key, "x"))[0][1] for key in keys] == [1, 1, 2, 2, 3, 4, 1]


@pytest.mark.parametrize("how", VARIANTS)
def test_an_initial_state(how: type) -> None:
    both = Both(RunningCount, how, "key string, value string", initial=[("a", 10), ("b", 20)])
    assert both.run.state("count", "b").value == 20
    assert both.take(("a", "x"), ("c", "x")) == [("a", 11), ("c", 1)]


@pytest.mark.parametrize("how", VARIANTS)
def test_an_initial_state_without_rows(how: type) -> None:
    both = Both(RunningCount, how, "key string, value string", initial=[])
    assert both.take(("key1", "a")) == [("key1", 1)]


@pytest.mark.parametrize("how", VARIANTS)
def test_a_slice_without_rows_calls_nothing(how: type) -> None:
    """Neither does Spark's engine; the tester calls for a key that it is told."""
    run = Both(RunningCount, how, "key string, value string").run
    assert run.take() == []
    assert run.state("count", None) is None


@pytest.mark.parametrize("how", VARIANTS)
def test_rows_of_a_call(how: type) -> None:
    both = Both(RunningCount, how, "key string, value string")
    assert both.take(("one", "a"), ("null", None), ("null", "a"), *[("three", "a")] * 3) == [
        ("one", 1),
        ("null", 2),
        ("three", 3),
    ]
    assert both.run.state("count", "other") is None


@pytest.mark.parametrize("how", VARIANTS)
def test_states_are_preset(how: type) -> None:
    """What stands in the state of a key is what the processor finds, whoever has stored it."""
    run = Both(RunningCount, how, "key string, value string").run
    with run.states_of("foo") as states:
        states["count"].update({"value": 5})
    assert run.take(("foo", "q")) == [("foo", 6)]
    run = Both(TopK, how, "key string, score double").run
    for key, scores in {"a": [6.0, 5.0], "b": [8.0, 7.0]}.items():
        with run.states_of(key) as states:
            states["topK"].update([{"value": each} for each in scores])
    run.take(("a", 10.0), ("b", 7.5), ("c", 1.0))
    found = {key: [each.value for each in run.state("topK", key) or []] for key in "abcd"}
    assert found == {"a": [10.0, 6.0], "b": [8.0, 7.5], "c": [1.0], "d": []}
    run = Both(WordFrequency, how, "key string, word string").run
    with run.states_of("a") as states:
        states["frequencies"].update({("hello",): (5,), ("world",): (3,)})
    assert run.take(("a", "hello"), ("a", "bye"), ("b", "new")) == [
        ("a", "hello", 6),
        ("a", "bye", 1),
        ("b", "new", 1),
    ]


@pytest.mark.parametrize("how", VARIANTS)
def test_what_is_cleared_is_that_of_one_key(how: type) -> None:
    both = Both(AllMethods, how, "key string, command string", time_mode="ProcessingTime")
    fills = ("value set 1", "list put a", "map put x 1")
    both.take(*[(key, fill) for key in ("a", "b") for fill in fills])
    clears = ("value clear", "list clear", "map clear")
    assert [row[1] for row in both.take(*[("a", clear) for clear in clears])] == [
        "value clear: False None",
        "list clear: False []",
        "map clear: []",
    ]
    assert [row[1] for row in both.take(*[("b", get) for get in ("value", "list", "map")])] == [
        "value: True (1,)",
        "list: True [('a',)]",
        "map: [(('x',), (1,))]",
    ]
    # What is not there can be cleared, too.
    both.take(*[("c", clear) for clear in clears])


@pytest.mark.parametrize("how", VARIANTS)
def test_a_state_that_never_was_can_be_deleted(how: type) -> None:
    class Deleting(RunningCount):
        def init(self, handle: Any) -> None:
            super().init(handle)
            handle.deleteIfExists("nonexistent")

    both = Both(Deleting, how, "key string, value string")
    assert both.take(("a", "x")) == [("a", 1)]


class InitCounting(InRows, RunningCount):
    """Of a module, so that its copies count in the same class."""

    inits = 0

    def init(self, handle: Any) -> None:
        InitCounting.inits += 1
        super().init(handle)


class InitCountingInPandas(InPandas, InitCounting):
    pass


@pytest.mark.parametrize("how", VARIANTS)
def test_init_is_called_once(how: type) -> None:
    """Once for the graph, and once where the processor runs, however many slices there are."""
    InitCounting.inits = 0
    made = InitCounting if how is InRows else InitCountingInPandas

    def build(keyed: Any) -> Any:
        return keyed.transform_with_state(made(), made.output, in_pandas=how.in_pandas, uid="f")

    run = Slices("key string, value string", "key", build)
    run.take(("a", "x"), ("b", "x"))
    run.take(("a", "x"))
    assert InitCounting.inits == 2


@pytest.mark.parametrize("how", VARIANTS)
def test_whole_numbers_stay_whole(how: type) -> None:
    class Typed(RunningCount):
        output = "key string, type string, n long"

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            (given,) = rows
            kind = given["n"].dtype if self.in_pandas else type(given.n).__name__
            n = np.int64(2**53 + 1) if self.in_pandas else 2**53 + 1
            yield self.out(key=key[0], type=str(kind), n=n)

    def build(keyed: Any) -> Any:
        made = variant(Typed, how)()
        return keyed.transform_with_state(made, Typed.output, in_pandas=how.in_pandas, uid="f")

    kind = "int64" if how.in_pandas else "int"
    run = Slices("key string, n long", "key", build)
    assert run.take(("a", 1)) == [("a", kind, 2**53 + 1)]


@pytest.mark.parametrize("how", VARIANTS)
def test_top_k(how: type) -> None:
    both = Both(TopK, how, "key string, score double")
    assert both.take(("a", 2.0), ("a", 3.0), ("a", 1.0)) == [("a", 3.0), ("a", 2.0)]
    assert both.take(("b", 10.0), ("b", 20.0), ("b", 30.0), ("b", 40.0))[0] == ("b", 40.0)
    assert both.take(("c", 100.0)) == [("c", 100.0)]
    assert both.take(("a", 10.0)) == [("a", 10.0), ("a", 3.0)]


@pytest.mark.parametrize("how", VARIANTS)
def test_word_frequency(how: type) -> None:
    both = Both(WordFrequency, how, "key string, word string")
    counts = [row[2] for row in both.take(*[("a", word) for word in ("x", "y", "x", "y")])]
    assert counts == [1, 1, 2, 2]
    assert [row[2] for row in both.take(("b", "x"), ("b", "z"))] == [1, 1]
    assert [row[2] for row in both.take(("a", "x"), ("a", "z"))] == [3, 1]


@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize("processor", [RunningCount, TopK, WordFrequency])
def test_random_rows(how: type, processor: type) -> None:
    chance = random.Random(7)
    columns, value = {
        RunningCount: ("key string, value string", lambda: chance.choice("xyz")),
        TopK: ("key string, score double", lambda: chance.random()),
        WordFrequency: ("key string, word string", lambda: chance.choice("abcdef")),
    }[processor]
    both = Both(processor, how, columns)
    for _ in range(5):
        both.take(*[(f"k{chance.randrange(10)}", value()) for _ in range(200)])


@pytest.mark.parametrize("how", VARIANTS)
def test_processing_time_timers(how: type) -> None:
    both = Both(SessionTimeout, how, "key string, value string", time_mode="ProcessingTime")
    both.take(("key1", "a"))
    assert both.wait(5) == []
    both.take(("key2", "b"))
    assert both.wait(6) == [("key1", "session-expired@10000")]
    assert both.run.state("lastSeen", "key1") is None
    assert both.wait(5) == [("key2", "session-expired@15000")]


@pytest.mark.parametrize("how", VARIANTS)
def test_event_time_timers(how: type) -> None:
    columns = "key string, at timestamp"
    both = Both(EventTimeSession, how, columns, time_mode="EventTime")
    both.take(("key1", seconds(10)), ("key2", seconds(11)))
    assert both.watermark(14) == []
    assert both.watermark(15) == [("key1", "expired@15000")]
    assert both.watermark(16) == [("key2", "expired@16000")]
    assert both.take(("key1", seconds(17)), ("key1", seconds(16)), ("key1", seconds(20))) == [
        ("key1", "received@17"),
        ("key1", "received@20"),
    ]


@pytest.mark.parametrize("how", VARIANTS)
def test_late_rows_are_dropped(how: type) -> None:
    both = Both(EventTimeCount, how, "key string, at timestamp", time_mode="EventTime")
    assert both.take(*[("key1", seconds(at)) for at in (5, 6, 7)]) == [("key1", 3)]
    both.watermark(6)
    assert both.take(*[("key1", seconds(at)) for at in (4, 5, 6, 8)]) == [("key1", 4)]
    assert both.run.operator.late_rows == 3


@pytest.mark.parametrize("how", VARIANTS)
def test_rows_in_time_set_timers(how: type) -> None:
    both = Both(EventTimeSession, how, "key string, at timestamp", time_mode="EventTime")
    both.watermark(20)
    assert both.take(("key1", seconds(10)), ("key1", seconds(25))) == [("key1", "received@25")]
    assert both.watermark(30) == [("key1", "expired@30000")]


@pytest.mark.parametrize("how", VARIANTS)
def test_all_methods(how: type) -> None:
    commands = [
        *("value get", "value set 5", "value clear", "value null", "value add 0"),
        *("list get", "list put a b", "list append c", "list extend d e", "list clear"),
        *("map all", "map put x 1", "map put y 2", "map put z 3", "map get y", "map remove y"),
        *("map get y", "map remove q", "map clear", "map get x"),
    ]
    both = Both(AllMethods, how, "key string, command string", time_mode="ProcessingTime")
    found = both.take(*[("k", command) for command in commands if command != "value add 0"])
    results = dict(row[1].split(": ") for row in found)
    assert results["value get"] == "False None"
    assert results["value set 5"] == "True (5,)"
    assert results["list extend d e"] == "True [('a',), ('b',), ('c',), ('d',), ('e',)]"
    assert results["list clear"] == "False []"
    assert results["map remove y"] == "[(('x',), (1,)), (('z',), (3,))]"
    assert results["map clear"] == "[]"


def _command(chance: random.Random) -> str:
    name, number = chance.choice("abcdefgh"), chance.randrange(-50, 50)
    some = " ".join(chance.choices("uvwxyz", k=chance.randrange(1, 4)))
    return chance.choice(
        [
            *("value get", "value clear", "value null", f"value set {number}"),
            *("list get", "list clear", f"list put {some}", f"list append {name}"),
            *(f"list extend {some}", "map all", "map clear", f"map put {name} {number}"),
            *(f"map put {name} {number}", f"map remove {name}", f"map get {name}"),
            *(f"timer {abs(number) + 1}", f"timer {abs(number) + 1}", f"untimer {abs(number) + 1}"),
            "timers",
        ]
    )


def _random_commands(seed: int, slices: int) -> None:
    chance = random.Random(seed)
    how = chance.choice(VARIANTS)
    both = Both(AllMethods, how, "key string, command string", time_mode="ProcessingTime")
    keys = [None, *(f"k{n}" for n in range(5))]
    for _ in range(slices):
        rows = [(chance.choice(keys), _command(chance)) for _ in range(chance.randrange(1, 40))]
        both.take(*rows)
        both.wait(chance.choice([0.001, 0.005, 0.02]))


@pytest.mark.parametrize("seed", range(8))
def test_random_commands(seed: int) -> None:
    _random_commands(seed, 12)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8, 400))
def test_more_random_commands(seed: int) -> None:
    _random_commands(seed, 60)


KEYS = [
    ("long", [0, 7, None]),
    ("string", ["", "key with spaces", "ключ", "a/b:c", "key@#$%", None]),
    ("decimal(5,2)", [None]),
    ("boolean", [True, False, None]),
]


@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize(("type", "keys"), KEYS)
def test_keys_are_passed_through(how: type, type: str, keys: list[Any]) -> None:
    """A null in a column of numbers stays None, also in pandas, where Spark makes it a float."""
    seen: list[Any] = []

    class Seen(RunningCount):
        output = f"key {type}, count long"

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            yield self.out(key=key[0], count=len(self.values(rows, "value")))
            results.append((key, key[0].__class__))

    results = seen

    def build(keyed: Any) -> Any:
        made = variant(Seen, how)()
        return keyed.transform_with_state(made, Seen.output, in_pandas=how.in_pandas, uid="f")

    run = Slices(f"key {type}, value string", "key", build)
    # What a closure has gathered is in the copy that was pickled: rows tell as much.
    found = run.take(*[(key, "x") for key in keys for _ in range(2)])
    assert found == [(key, 2) for key in keys]


@pytest.mark.parametrize("how", VARIANTS)
def test_a_key_of_several_columns(how: type) -> None:
    class Pairs(RunningCount):
        output = "key string, count long"

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            yield self.out(key=repr(key), count=len(self.values(rows, "value")))

    def build(keyed: Any) -> Any:
        made = variant(Pairs, how)()
        return keyed.transform_with_state(made, Pairs.output, in_pandas=how.in_pandas, uid="f")

    run = Slices("one long, value string, two long", ("one", "two"), build)
    found = run.take((1, "a", 2), (1, "b", 2), (2, "c", 1), (1, "d", None))
    assert found == [("(1, 2)", 2), ("(2, 1)", 1), ("(1, None)", 1)]


@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize("method", ["timer 5", "untimer 5", "timers"])
def test_no_timers_without_a_time_mode(how: type, method: str) -> None:
    class Refused(AllMethods):
        def done(self, command: str, now: int) -> str:
            try:
                return super().done(command, now)
            except PySparkRuntimeError as error:
                return str(error)

    def build(keyed: Any) -> Any:
        made = variant(Refused, how)()
        return keyed.transform_with_state(made, Refused.output, in_pandas=how.in_pandas, uid="f")

    ((_, result),) = Slices("key string, command string", "key", build).take(("k", method))
    assert "INVALID_TIME_MODE" in result
    assert 'time_mode="ProcessingTime"' in result

"""What a callback returns that is not what is due: it is refused, and the error names the operator.

Which of the wrong things are right after all depends on what is due alone: a row, several rows, a
value of a type, a batch, a mask. Everything else must be refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Sink
from mainstay.errors import MainstayError
from mainstay.runtime.operators import rows as row_operators
from mainstay.testing import rows, run
from tests.callbacks.running import environment, finish

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS = [(f"k{n % 3}", n, START + timedelta(seconds=n)) for n in range(6)]
OUT = "k string, n long"


class Own:
    pass


class Unspeakable:
    """Cannot be shown in a message."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def _generator() -> Any:
    yield "a", 1


_coroutines: list[Any] = []


def _coroutine() -> Any:
    """One that nobody awaits, which Python warns of when it is gone, in whichever test that is."""

    async def given() -> Any:
        return "a", 1

    _coroutines.append(given())
    return _coroutines[-1]


@pytest.fixture(autouse=True)
def _coroutines_are_closed() -> Iterator[None]:
    yield
    while _coroutines:
        _coroutines.pop().close()


GIVEN: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "int": lambda: 5,
    "text": lambda: "ab",
    "bytes": lambda: b"ab",
    "short": lambda: ("a",),
    "long": lambda: ("a", 1, 2),
    "swapped": lambda: (1, "a"),
    "truth": lambda: ("a", True),
    "fraction": lambda: ("a", 1.5),
    "too large": lambda: ("a", 1 << 70),
    "enormous": lambda: ("a", "n" * 1_000_000),
    "no unicode": lambda: ("\ud800", 1),
    "list": lambda: ["a", 1],
    "tuples": lambda: (("a", 1), ("b", 2)),
    "set": lambda: {1, 2},
    "lacking": lambda: {"k": "a"},
    "more": lambda: {"k": "a", "n": 1, "other": 2},
    "generator": _generator,
    "coroutine": _coroutine,
    "class": lambda: Own,
    "object": Own,
    "unspeakable": Unspeakable,
    "unspeakable within": lambda: ("a", Unspeakable()),
    "another batch": lambda: pa.RecordBatch.from_pydict({"other": [1]}),
}
ROW = {"truth", "list"}
SEVERAL = {"none", "truth", "generator"}
NUMBER = {"none", "int"}
TEXT = {"none", "text", "bytes"}


def keyed(make: Callable[[], Any]) -> Any:
    class Keyed(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            return make()

    return Keyed()


def timed(make: Callable[[], Any]) -> Any:
    class Timed(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            ctx.timers.event_time(row.at)

        def on_timer(self, at: Any, ctx: Any) -> Any:
            return make()

    return Timed()


def plain(make: Callable[[], Any]) -> Any:
    class Plain(ms.Process):
        def process(self, row: Any, ctx: Any) -> Any:
            return make()

    return Plain()


def aside(make: Callable[[], Any]) -> Any:
    class Aside(ms.Process):
        side = ms.SideOutput(OUT)

        def process(self, row: Any, ctx: Any) -> Any:
            self.side.emit(make())

    return Aside()


def windowed(make: Callable[[], Any]) -> Any:
    class Windowed(ms.WindowProcess):
        def process(self, rows: Any, window: Any, ctx: Any) -> Any:
            return make()

    return Windowed()


def stored(declared: Any, act: Callable[[Any, Any], Any]) -> Any:
    def of(make: Callable[[], Any]) -> Any:
        class Stored(ms.KeyedProcess):
            state = declared

            def process(self, row: Any, ctx: Any) -> Any:
                act(self.state, make())

        return Stored()

    return lambda s, make: s.key_by("k").process(of(make), OUT, uid="f")


class Given(ms.AggregateFunction):
    """An aggregate of which one method gives something else."""

    def __init__(self, make: Callable[[], Any], at: str) -> None:
        self.make, self.at = make, at

    def create(self) -> Any:
        return self.make() if self.at == "create" else 0

    def add(self, accumulator: Any, value: Any) -> Any:
        return self.make() if self.at == "add" else accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        return accumulator

    def result(self, accumulator: Any) -> Any:
        return self.make() if self.at == "result" else accumulator


def udaf(at: str) -> Callable[[Any, Any], Any]:
    def build(stream: Any, make: Callable[[], Any]) -> Any:
        own = ms.udaf(Given(make, at), "n", accumulator="long", returns="long")
        return stream.key_by("k").window(ms.tumbling("10s")).aggregate(n=own, uid="f")

    return build


def asked(stream: Any, make: Callable[[], Any]) -> Any:
    async def answer(row: Any) -> Any:
        return make()

    return stream.map_async(answer, OUT, uid="f")


def partitioned(stream: Any, make: Callable[[], Any]) -> Any:
    chosen = stream.select("k", "n", uid="f").partition_by(lambda row: make())
    return chosen.map(lambda row: row, OUT, uid="g")


Build = Callable[[Any, Callable[[], Any]], Any]
KINDS: dict[str, tuple[Build, set[str]]] = {
    "map": (lambda s, make: s.map(lambda row: make(), OUT, uid="f"), ROW),
    "map_async": (asked, ROW),
    "map_async that blocks": (
        lambda s, make: s.map_async(lambda row: make(), OUT, uid="f"),
        ROW | {"coroutine"},
    ),
    "side output": (lambda s, make: s.process(aside(make), OUT, uid="f").side("side"), ROW),
    "flat_map": (lambda s, make: s.flat_map(lambda row: make(), OUT, uid="f"), SEVERAL),
    "process": (lambda s, make: s.process(plain(make), OUT, uid="f"), SEVERAL),
    "keyed process": (lambda s, make: s.key_by("k").process(keyed(make), OUT, uid="f"), SEVERAL),
    "on_timer": (lambda s, make: s.key_by("k").process(timed(make), OUT, uid="f"), SEVERAL),
    "window process": (
        lambda s, make: (
            s.key_by("k").window(ms.tumbling("10s")).process(windowed(make), OUT, uid="f")
        ),
        SEVERAL,
    ),
    "pattern select": (
        lambda s, make: s.key_by("k").match(
            ms.pattern("one").within("1s"), lambda match: make(), OUT, uid="f"
        ),
        SEVERAL,
    ),
    "reduce": (lambda s, make: s.key_by("k").reduce(lambda a, b: make(), uid="f"), set()),
    "window reduce": (
        lambda s, make: (
            s.key_by("k").window(ms.tumbling("10s")).reduce(lambda a, b: make(), uid="f")
        ),
        set(),
    ),
    "map_batches": (lambda s, make: s.map_batches(lambda batch: make(), OUT, uid="f"), {"none"}),
    "filter_batches": (lambda s, make: s.filter_batches(lambda batch: make(), uid="f"), set()),
    "key function": (
        lambda s, make: s.key_by(lambda row: make(), "string", uid="f").aggregate(n=ms.count()),
        TEXT,
    ),
    "partition_by": (partitioned, {"int"}),
    "gap of a session": (
        lambda s, make: (
            s.key_by("k").window(ms.session(lambda row: make())).aggregate(n=ms.count(), uid="f")
        ),
        {"int"},
    ),
    "ValueState.update": (stored(ms.ValueState("long"), lambda s, v: s.update(v)), NUMBER),
    "ListState.add": (stored(ms.ListState("long"), lambda s, v: s.add(v)), {"int"}),
    "MapState.put": (stored(ms.MapState("string", "long"), lambda s, v: s.put("a", v)), NUMBER),
    "MapState.put of a key": (
        stored(ms.MapState("string", "long"), lambda s, v: s.put(v, 1)),
        {"text"},
    ),
    "udaf create": (udaf("create"), NUMBER),
    "udaf add": (udaf("add"), NUMBER),
    "udaf result": (udaf("result"), NUMBER),
}


def outcome(build: Build, make: Callable[[], Any]) -> str:
    """Empty where the job finishes, otherwise what it says."""
    try:
        run(lambda env: job(env, build, make), parallelism=2)
    except MainstayError as error:
        return str(error)
    return ""


def job(env: ms.Environment, build: Build, make: Callable[[], Any]) -> Sink:
    source, sink = rows("k string, n long, at timestamp", ROWS), ms.connectors.Memory()
    stream = env.source(source, uid="in", watermark=ms.Watermark("at"))
    build(stream, make).sink(sink, uid="out")
    return sink


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_due_is_refused_with_the_operator(kind: str) -> None:
    check(kind)


def check(kind: str) -> None:
    build, right = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = {name: outcome(build, make) for name, make in GIVEN.items()}
    taken = {name for name, text in seen.items() if not text}
    assert taken == right
    for name in GIVEN.keys() - right:
        assert "operator 'f'" in seen[name], (name, seen[name])
        assert len(seen[name]) < 20_000, name


IN_SUITE = {("keyed process", "unspeakable")}
CELLS = [
    pytest.param(kind, name, marks=() if (kind, name) in IN_SUITE else pytest.mark.soak)
    for kind in KINDS
    for name in GIVEN
]


@pytest.mark.flaky(reruns=1)
@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(("kind", "name"), CELLS)
def test_what_is_not_due_is_refused_where_workers_are_processes(
    kind: str, name: str, tmp_path: Path
) -> None:
    build, right = KINDS[kind]
    env = environment(tmp_path, "processes", 0)
    sink = job(env, build, GIVEN[name])
    seen = finish(env, sink, "processes")
    assert seen.status == ("finished" if name in right else "failed"), seen.shown
    if name not in right:
        assert "operator 'f'" in str(seen.error)
        assert len(str(seen.error)) < 20_000


@pytest.mark.mutation
def test_what_is_no_batch_and_is_taken_for_an_empty_one_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = row_operators.fitted

    def lenient(result: Any, schema: pa.Schema, uid: str) -> pa.RecordBatch:
        is_batch = isinstance(result, pa.RecordBatch)
        return sound(result if is_batch else pa.RecordBatch.from_pylist([], schema), schema, uid)

    monkeypatch.setattr(row_operators, "fitted", lenient)
    with pytest.raises(AssertionError):
        check("map_batches")

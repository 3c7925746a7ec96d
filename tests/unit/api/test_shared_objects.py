"""One object that a program gives to two operators is another object in each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import (
    Memory,
    Polled,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    SplitReader,
)
from mainstay.schema import to_schema
from mainstay.testing import rows, run

VALUES = [(f"k{n % 3}", n) for n in range(30)]
SHARED = ms.ValueState("long")


class Counting(ms.KeyedProcess):
    count = ms.ValueState("long")

    def process(self, row: Any, context: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        return (row.k, self.count.get())


class Numbering(ms.Process):
    seen = ms.OperatorListState("long")

    def process(self, row: Any, context: Any) -> Any:
        self.seen.add(row.n)
        return (row.k, row.n)


class Left(ms.KeyedProcess):
    one = SHARED
    other = SHARED

    def process(self, row: Any, context: Any) -> Any:
        self.one.update((self.one.get() or 0) + 1)
        self.other.update((self.other.get() or 0) + 10)
        return (row.k, self.one.get())


class Right(ms.KeyedProcess):
    mine = SHARED

    def process(self, row: Any, context: Any) -> Any:
        self.mine.update((self.mine.get() or 0) + 100)
        return (row.k, self.mine.get())


def counts(number: int, times: int = 1) -> dict[str, int]:
    return dict.fromkeys(("k0", "k1", "k2"), number * times)


def build_with(first: Any, second: Any) -> Any:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("k string, n long", VALUES), uid="in")
        stream.key_by("k").process(first, schema="k string, n long", uid="a").sink(
            Memory(), uid="out-a"
        )
        few = stream.filter(lambda row: row.n < 15, uid="few")
        few.key_by("k").process(second, schema="k string, n long", uid="b").sink(
            Memory(), uid="out-b"
        )

    return build


@pytest.mark.parametrize("parallelism", [1, 2])
def test_one_function_object_in_two_operators_has_the_state_of_each(parallelism: int) -> None:
    function = Counting()
    result = run(build_with(function, function), parallelism=parallelism)
    assert result.state("a", "count") == counts(10)
    assert result.state("b", "count") == counts(5)


def test_one_function_object_in_two_operators_has_the_state_of_each_in_this_process(
    tmp_path: Path,
) -> None:
    function = Counting()
    sinks = {"a": Memory(), "b": Memory()}
    env = ms.Environment(
        spark="embedded", parallelism=2, snapshots=ms.Snapshots(tmp_path, every="50ms")
    )
    stream = env.source(rows("k string, n long", VALUES), uid="in")
    for uid, stream_of in (("a", stream), ("b", stream.filter(lambda row: row.n < 15, uid="f"))):
        stream_of.key_by("k").process(function, schema="k string, n long", uid=uid).sink(
            sinks[uid], uid=f"out-{uid}"
        )
    env.start("shared").wait(30)
    for uid, number in (("a", 10), ("b", 5)):
        assert Counter(sinks[uid].rows()) == Counter(
            (k, n) for k in counts(1) for n in range(1, number + 1)
        )


def test_one_function_object_in_two_operators_of_a_chain_has_the_lists_of_each() -> None:
    function = Numbering()

    def build(env: ms.Environment) -> None:
        stream = env.source(rows("k string, n long", VALUES), uid="in")
        stream = stream.process(function, schema="k string, n long", uid="a")
        stream = stream.filter(lambda row: row.n < 15, uid="few")
        stream.process(function, schema="k string, n long", uid="b").sink(Memory(), uid="out")

    result = run(build, parallelism=1)
    assert [len(each) for each in result.state("a", "seen")] == [30]
    assert [len(each) for each in result.state("b", "seen")] == [15]


def test_one_declaration_under_several_names_and_in_several_classes_is_a_state_for_each() -> None:
    result = run(build_with(Left(), Right()), parallelism=2)
    assert result.state("a", "one") == counts(10)
    assert result.state("a", "other") == counts(10, 10)
    assert result.state("b", "mine") == counts(5, 100)


class Remembering:
    """A helper that is not a function, with a memory of its own."""

    def __init__(self) -> None:
        self.calls = 0


class Helped(ms.KeyedProcess):
    last = ms.ValueState("long")

    def __init__(self, helper: Remembering) -> None:
        self.helper = helper

    def process(self, row: Any, context: Any) -> Any:
        self.helper.calls += 1
        self.last.update(self.helper.calls)
        return None


def test_one_helper_in_two_functions_is_a_helper_for_each() -> None:
    helper = Remembering()
    result = run(build_with(Helped(helper), Helped(helper)), parallelism=1)
    assert max(result.state("a", "last").values()) == 30
    assert max(result.state("b", "last").values()) == 15


class Last:
    """An aggregate function that counts its own calls."""

    def __init__(self) -> None:
        self.calls = 0

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, value: int) -> int:
        self.calls += 1
        return self.calls

    def result(self, accumulator: int) -> int:
        return accumulator


LAST = Last()


class Aggregated(ms.KeyedProcess):
    calls = ms.AggregatingState(LAST, "long")

    def process(self, row: Any, context: Any) -> Any:
        self.calls.add(row.n)
        return None


def test_one_aggregate_function_in_two_operators_is_one_for_each() -> None:
    function = Aggregated()
    result = run(build_with(function, function), parallelism=1)
    assert max(result.state("a", "calls").values()) == 30
    assert max(result.state("b", "calls").values()) == 15


class Planning(Source):
    """Plans one split, once: it remembers that it has."""

    def __init__(self) -> None:
        self.schema = to_schema("n long")
        self.is_planned = False

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        if self.is_planned:
            return []
        self.is_planned = True
        return [Split("all", None)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _Once(self.schema)


class _Once(SplitReader):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def poll(self, max_rows: int) -> Polled:
        return Polled(pa.RecordBatch.from_pydict({"n": [1, 2]}, self._schema), 2, finished=True)


def test_one_source_object_in_two_operators_is_planned_for_each() -> None:
    source = Planning()

    def build(env: ms.Environment) -> None:
        env.source(source, uid="a").sink(Memory(), uid="out-a")
        env.source(source, uid="b").sink(Memory(), uid="out-b")

    result = run(build, parallelism=1)
    assert result.output("out-a") == result.output("out-b") == [(1,), (2,)]


def test_one_input_of_the_test_kit_for_two_sources_is_planned_for_each() -> None:
    def build(env: ms.Environment) -> None:
        for uid in ("a", "b"):
            env.source(rows("n long", []), uid=uid).sink(Memory(), uid=f"out-{uid}")

    source = Planning()
    result = run(build, inputs={"a": source, "b": source}, parallelism=1)
    assert result.output("out-a") == result.output("out-b") == [(1,), (2,)]


_committed: dict[str, int] = {}


class Committing(Sink):
    """Commits an epoch once: it remembers which it has. Handles hold the uid."""

    is_global = True

    def __init__(self) -> None:
        self.last = 0

    def open(self, context: SinkContext) -> SinkWriter:
        return _Committer(context.uid)

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        if epoch > self.last:
            self.last = epoch
            for handle in handles:
                uid, rows = handle.decode().split()
                _committed[uid] = _committed.get(uid, 0) + int(rows)


class _Committer(SinkWriter):
    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows

    def prepare(self, epoch: int) -> bytes | None:
        rows, self._rows = self._rows, 0
        return f"{self._uid} {rows}".encode() if rows else None


def test_one_sink_object_in_two_operators_commits_the_epochs_of_each(tmp_path: Path) -> None:
    _committed.clear()
    sink = Committing()
    env = ms.Environment(
        spark="embedded", parallelism=1, snapshots=ms.Snapshots(tmp_path, every="1h")
    )
    stream = env.source(rows("k string, n long", VALUES), uid="in")
    stream.sink(sink, uid="a")
    stream.sink(sink, uid="b")
    env.start("shared").wait(30)
    assert _committed == {"a": 30, "b": 30}

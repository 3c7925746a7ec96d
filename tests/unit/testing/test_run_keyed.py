"""Programs with keys run under a seed: keyed functions, reductions and two inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.testing import rows, run
from tests.unit.testing.programs import (
    RUNS,
    SCHEMA,
    SUMS,
    VALUES,
    Sum,
    finals,
    gives,
    running_sums,
    runs,
    source,
)

pytestmark = pytest.mark.usefixtures("epochs_and_crashes_come_early")


# ---------------------------------------------------------------- keys


def test_a_keyed_process_sees_the_rows_and_the_state_of_a_key() -> None:
    def build(env: ms.Environment) -> None:
        one = env.source(rows(SCHEMA, VALUES), uid="in")
        one.key_by("k").process(Sum(), SCHEMA, uid="sum").sink(Memory(), uid="out")

    for parallelism, seed, crashes in RUNS:
        result = run(build, parallelism=parallelism, seed=seed, crashes=crashes)
        # One split keeps the order of each key's rows, so every intermediate sum is known.
        assert Counter(result.output("out")) == Counter(running_sums())
        assert result.state("sum", "total") == SUMS


def test_a_key_of_several_columns_is_a_named_tuple() -> None:
    class Count(ms.KeyedProcess):
        count = ms.ValueState("long")

        def process(self, row: Any, ctx: Any) -> Any:
            self.count.update((self.count.get() or 0) + 1)
            return ctx.key.k, ctx.key.parity, self.count.get()

    def describe(s: ms.Stream) -> ms.Stream:
        paired = s.map(lambda row: (row.k, row.n % 2), "k string, parity long", uid="m")
        return paired.key_by("k", "parity").process(
            Count(), "k string, parity long, n long", uid="count"
        )

    expected = dict(Counter((k, n % 2) for k, n in VALUES))
    for result in runs(describe):
        assert result.state("count", "count") == expected
        assert len(result.output("out")) == len(VALUES)


def test_a_key_of_a_function_is_in_the_context_and_not_in_the_row() -> None:
    class Check(ms.KeyedProcess):
        count = ms.ValueState("long")

        def process(self, row: Any, ctx: Any) -> Any:
            assert ctx.key == row.n % 7
            assert row._fields == ("k", "n")
            self.count.update((self.count.get() or 0) + 1)
            return row

    def describe(s: ms.Stream) -> ms.Stream:
        return s.key_by(lambda row: row.n % 7, "long").process(Check(), SCHEMA, uid="p")

    for result in runs(describe):
        assert result.state("p", "count") == dict(Counter(n % 7 for _, n in VALUES))
        assert Counter(result.output("out")) == Counter(VALUES)


KEYS: dict[str, Callable[[ms.Stream], ms.KeyedStream]] = {
    "column": lambda s: s.key_by("k"),
    "columns": lambda s: s.key_by("k", "n"),
    "function": lambda s: s.key_by(lambda row: row.n % 7, "long"),
}


@pytest.mark.parametrize("key", sorted(KEYS))
def test_what_reads_a_keyed_stream_without_its_key_sees_only_its_columns(key: str) -> None:
    keyed = KEYS[key]

    def checked(row: Any) -> Any:
        assert row._fields == ("k", "n")
        return row

    def checked_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["k", "n"]
        return batch

    assert keyed(source(ms.Environment())).schema.names == ["k", "n"]
    for describe in (
        keyed,
        lambda s: keyed(s).map(checked, SCHEMA, uid="m"),
        lambda s: keyed(s).flat_map(lambda row: [checked(row)], SCHEMA, uid="m"),
        lambda s: keyed(s).filter(checked, uid="m"),
        lambda s: keyed(s).map_batches(checked_batch, SCHEMA, uid="m", parallelism=1),
    ):
        gives(describe, VALUES, among=RUNS[1:2])
    gives(lambda s: keyed(s).filter(checked, uid="m").union(s), VALUES * 2, among=RUNS[2:3])


@pytest.mark.parametrize("key", sorted(KEYS))
def test_the_rows_of_a_key_go_to_one_subtask_also_without_a_keyed_function(key: str) -> None:
    places: dict[Any, set[int]] = {}

    class Where(ms.Process):
        def process(self, row: Any, ctx: Any) -> Any:
            return row.k, row.n, ctx.subtask

    def build(env: ms.Environment) -> None:
        # Forward keeps the subtask that the key chose.
        keyed = KEYS[key](source(env)).filter(lambda row: True, uid="f")
        keyed.process(Where(), "k string, n long, subtask int", uid="p").sink(Memory(), uid="out")

    of_key: dict[str, Callable[[str, int], Any]] = {
        "column": lambda k, n: k,
        "columns": lambda k, n: (k, n),
        "function": lambda k, n: n % 7,
    }
    for k, n, subtask in run(build, parallelism=3, seed=1).output("out"):
        places.setdefault(of_key[key](k, n), set()).add(subtask)
    assert all(len(subtasks) == 1 for subtasks in places.values())
    assert set.union(*places.values()) == {0, 1, 2}


def test_a_key_function_may_meet_a_column_of_any_name() -> None:
    def build(env: ms.Environment) -> None:
        taken = env.source(rows("__key long, __key_ long", [(1, 2), (3, 4)]), uid="in")
        keyed = taken.key_by(lambda row: row["__key"] + row["__key_"], "long")
        keyed.reduce(lambda a, b: b, uid="r").sink(Memory(), uid="out")

    result = run(build)
    assert sorted(result.output("out")) == [(1, 2), (3, 4)]
    assert sorted(result.state("r", "reduced")) == [3, 7]


def test_process_batches_reads_and_writes_many_keys_at_once() -> None:
    class Sums(ms.KeyedBatchProcess):
        total = ms.ValueState("long")

        def process(self, batch: Any, ctx: Any) -> Any:
            before = self.total.get_many(batch.keys)
            added = [pc.sum(part.column("n")).as_py() for _, part in batch.groups()]
            after = [(old or 0) + new for old, new in zip(before, added, strict=True)]
            self.total.put_many(batch.keys, after)
            return list(zip(batch.keys, after, strict=True))

    for key in ("column", "function"):

        def describe(s: ms.Stream, key: str = key) -> ms.Stream:
            schema = SCHEMA if key == "column" else "k long, n long"
            return KEYS[key](s).process_batches(Sums(), schema, uid="sums")

        expected = SUMS if key == "column" else {k: sum(range(k, 300, 7)) for k in range(7)}
        for result in runs(describe):
            assert result.state("sums", "total") == expected
            assert finals(result.output("out")) == expected


def test_process_batches_may_return_a_batch() -> None:
    class Pass(ms.KeyedBatchProcess):
        def process(self, batch: Any, ctx: Any) -> Any:
            return batch.batch

    gives(lambda s: s.key_by("k").process_batches(Pass(), SCHEMA, uid="p"), VALUES)


# ---------------------------------------------------------------- reduce


def test_reduce_emits_the_fold_of_each_key_after_every_row() -> None:
    def build(env: ms.Environment) -> None:
        one = env.source(rows(SCHEMA, VALUES), uid="in")
        reduced = one.key_by("k").reduce(lambda a, b: (a.k, a.n + b.n), uid="sum")
        reduced.sink(Memory(), uid="out")

    for parallelism, seed, crashes in RUNS:
        result = run(build, parallelism=parallelism, seed=seed, crashes=crashes)
        assert Counter(result.output("out")) == Counter(running_sums())
        assert result.state("sum", "reduced") == {k: (k, n) for k, n in SUMS.items()}


def test_reduce_may_return_a_dict_and_be_keyed_by_a_function() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        keyed = s.key_by(lambda row: row.n % 2, "long")
        return keyed.reduce(lambda a, b: {"n": a.n + b.n, "k": "sum"}, uid="sum")

    for result in runs(describe):
        assert result.state("sum", "reduced") == {
            parity: ("sum", sum(range(parity, 300, 2))) for parity in (0, 1)
        }


@pytest.mark.parametrize(
    ("wrong", "said"), [(None, "returned None"), (7, "7"), (("a", "b"), "'b'"), (("a",), "a")]
)
def test_a_reduce_that_gives_no_row_is_named(wrong: Any, said: str) -> None:
    def build(env: ms.Environment) -> None:
        source(env).key_by("k").reduce(lambda a, b: wrong, uid="bad").sink(Memory(), uid="out")

    with pytest.raises(Exception, match=rf"operator 'bad'.*reduce\(\).*{said}"):
        run(build)


# ---------------------------------------------------------------- two inputs


class Enrich(ms.CoKeyedProcess):
    """Joins each left row with the right row of its key, whichever comes first."""

    right = ms.ValueState("string")
    waiting = ms.ListState("long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        found = self.right.get()
        if found is None:
            self.waiting.add(row.n)
        else:
            yield ctx.key, row.n, found

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.right.update(row.name)
        for n in self.waiting.get() or ():
            yield ctx.key, n, row.name
        self.waiting.clear()


def test_two_keyed_inputs_share_the_state_of_a_key() -> None:
    names = [(k, k * 3) for k in "abcde"]

    def build(env: ms.Environment) -> None:
        right = env.source(rows("id string, name string", names, splits=2), uid="names")
        connected = source(env).key_by("k").connect(right.key_by("id"))
        joined = connected.process(Enrich(), "k string, n long, name string", uid="join")
        joined.sink(Memory(), uid="out")

    for parallelism, seed, crashes in RUNS:
        result = run(build, parallelism=parallelism, seed=seed, crashes=crashes)
        assert Counter(result.output("out")) == Counter((k, n, k * 3) for k, n in VALUES)
        assert result.state("join", "right") == dict(names)
        assert result.state("join", "waiting") == {}


def test_keys_of_several_columns_are_joined_by_place_and_named_as_on_the_left() -> None:
    class Names(ms.CoKeyedProcess):
        both = ms.ValueState("long")

        def process_left(self, row: Any, ctx: Any) -> Any:
            assert ctx.key._fields == ("k", "n")
            self.both.update((self.both.get() or 0) + 1)

        def process_right(self, row: Any, ctx: Any) -> Any:
            assert (ctx.key.k, ctx.key.n) == (row.a, row.b)
            self.both.update((self.both.get() or 0) + 1)

    def build(env: ms.Environment) -> None:
        right = env.source(rows("b long, a string", [(n, k) for k, n in VALUES]), uid="right")
        connected = source(env).key_by("k", "n").connect(right.key_by("a", "b"))
        connected.process(Names(), SCHEMA, uid="both").sink(Memory(), uid="out")

    for parallelism, seed, crashes in RUNS:
        result = run(build, parallelism=parallelism, seed=seed, crashes=crashes)
        assert result.state("both", "both") == dict.fromkeys(VALUES, 2)


def test_a_key_function_on_either_side_of_a_connection_stays_hidden() -> None:
    class Fields(ms.CoKeyedProcess):
        seen = ms.ListState("string")

        def process_left(self, row: Any, ctx: Any) -> Any:
            assert row._fields == ("k", "n")
            self.seen.add("left")

        def process_right(self, row: Any, ctx: Any) -> Any:
            assert row._fields == ("m",)
            self.seen.add("right")

    def build(env: ms.Environment) -> None:
        right = env.source(rows("m long", [(0,), (1,)]), uid="right")
        by_function = source(env).key_by(lambda row: row.n % 2, "long")
        connected = by_function.connect(right.key_by(lambda row: row.m, "long"))
        connected.process(Fields(), SCHEMA, uid="both").sink(Memory(), uid="out")

    seen = run(build, parallelism=2, seed=1).state("both", "seen")
    assert {key: Counter(sides) for key, sides in seen.items()} == {
        key: Counter(left=150, right=1) for key in (0, 1)
    }


def test_a_broadcast_input_reaches_every_subtask_and_keeps_broadcast_state() -> None:
    class Rules(ms.CoKeyedProcess):
        rules = ms.OperatorListState("string", redistribute="broadcast")
        count = ms.ValueState("long")

        def process_left(self, row: Any, ctx: Any) -> Any:
            self.count.update((self.count.get() or 0) + 1)

        def process_right(self, row: Any, ctx: Any) -> Any:
            self.rules.add(row.rule)
            return row.rule, ctx.subtask

    def build(env: ms.Environment) -> None:
        rules = env.source(rows("rule string", [("one",), ("two",)]), uid="rules", parallelism=1)
        connected = source(env).key_by("k").connect(rules.broadcast())
        told = connected.process(Rules(), "rule string, subtask int", uid="told")
        told.sink(Memory(), uid="out")

    for parallelism, seed, crashes in RUNS:
        result = run(build, parallelism=parallelism, seed=seed, crashes=crashes)
        told = [(rule, subtask) for rule in ("one", "two") for subtask in range(parallelism)]
        assert Counter(result.output("out")) == Counter(told)
        assert result.state("told", "rules") == [["one", "two"]] * parallelism
        assert result.state("told", "count") == dict.fromkeys("abcde", 60)


def test_a_broadcast_input_needs_no_key_on_the_other_side() -> None:
    class Rules(ms.CoKeyedProcess):
        rules = ms.OperatorListState("string", redistribute="broadcast")

        def process_left(self, row: Any, ctx: Any) -> Any:
            return row

        def process_right(self, row: Any, ctx: Any) -> Any:
            self.rules.add(row.k)

    def describe(s: ms.Stream) -> ms.Stream:
        few = s.filter(lambda row: row.n < 2, uid="few", parallelism=1)
        return s.connect(few.broadcast()).process(Rules(), SCHEMA, uid="told")

    for result in runs(describe):
        assert Counter(result.output("out")) == Counter(VALUES)
        assert all(sorted(units) == ["a", "b"] for units in result.state("told", "rules"))

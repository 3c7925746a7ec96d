"""Every stream method from its source to its sink, through ``mainstay.testing.run``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import mainstay as ms
from mainstay.connectors import Memory, Polled, Source, Split, SplitReader
from mainstay.errors import GraphError, JobFailedError, SchemaError, UserFunctionError
from mainstay.runtime.options import SnapshotOptions
from mainstay.schema import rows_to_batch, to_schema
from mainstay.testing import Result, SimulationSettings, rows, run

SCHEMA = "k string, n long"
VALUES = [("abcde"[n % 5], n) for n in range(300)]
SUMS = {key: sum(n for k, n in VALUES if k == key) for key in "abcde"}

# Parallelism, seed, crashes.
RUNS = [(1, 1, 2), (2, 4, 2), (3, 1, 2), (4, 6, 2)]
Build = Callable[[ms.Stream], ms.Stream]


@pytest.fixture(autouse=True)
def _epochs_and_crashes_come_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """These jobs take some hundred steps: crashes are to come after epochs but before the end."""
    module = sys.modules[run.__module__]
    monkeypatch.setattr(
        module, "SimulationSettings", partial(SimulationSettings, crash_within_steps=300)
    )
    monkeypatch.setattr(
        module, "SnapshotOptions", lambda every_s, **more: SnapshotOptions(every_s=0.01, **more)
    )


def source(env: ms.Environment, uid: str = "in", **more: Any) -> ms.Stream:
    return env.source(rows(SCHEMA, VALUES, splits=3), uid=uid, **more)


def runs(describe: Build, mode: str = "exactly_once", among: Any = RUNS) -> Iterator[Result]:
    """The same job under several seeds."""

    def build(env: ms.Environment) -> None:
        describe(source(env)).sink(Memory(), uid="out")

    for parallelism, seed, crashes in among:
        yield run(build, parallelism=parallelism, seed=seed, crashes=crashes, mode=mode)


def gives(describe: Build, expected: list[tuple[Any, ...]], among: Any = RUNS) -> None:
    """Every seed gives these rows, in any order."""
    for result in runs(describe, among=among):
        assert Counter(result.output("out")) == Counter(expected)


class Sum(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        yield ctx.key, self.total.get()


def finals(output: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """The largest value of each key: where sums only grow, the last one."""
    return {key: max(n for k, n in output if k == key) for key, _ in output}


def running_sums() -> list[tuple[str, int]]:
    """What a running sum emits if the rows of a key come in their order."""
    seen: Counter[str] = Counter()
    found = []
    for key, n in VALUES:
        seen[key] += n
        found.append((key, seen[key]))
    return found


# ---------------------------------------------------------------- rows and batches


def test_map_gives_a_row_for_a_row() -> None:
    gives(
        lambda s: s.map(lambda row: (row.k.upper(), row.n + 1), SCHEMA, uid="m"),
        [(k.upper(), n + 1) for k, n in VALUES],
    )


@pytest.mark.parametrize("shape", ["generator", "list", "row"])
def test_flat_map_takes_a_generator_a_list_a_row_and_none(shape: str) -> None:
    def several(row: Any) -> Iterator[Any]:
        for _ in range(row.n % 3):
            yield row

    functions: dict[str, Callable[[Any], Any]] = {
        "generator": several,
        "list": lambda row: [tuple(row)] * (row.n % 3),
        "row": lambda row: row if row.n % 2 else None,
    }
    expected = [row for row in VALUES for _ in range(row[1] % (2 if shape == "row" else 3))]
    gives(lambda s: s.flat_map(functions[shape], SCHEMA, uid="m"), expected)


def test_filter_keeps_what_is_true() -> None:
    gives(lambda s: s.filter(lambda row: row.n % 2, uid="f"), [v for v in VALUES if v[1] % 2])


def test_map_batches_takes_and_gives_batches_or_none() -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        kept = batch.filter(pc.field("n") >= 60)
        if not kept.num_rows:
            return None
        return pa.RecordBatch.from_arrays(
            [kept.column("k"), pc.multiply(kept.column("n"), 2)], names=["k", "n"]
        )

    gives(
        lambda s: s.map_batches(doubled, SCHEMA, uid="m"),
        [(k, n * 2) for k, n in VALUES if n >= 60],
    )


def test_process_keeps_operator_state_that_survives() -> None:
    class Numbered(ms.Process):
        seen = ms.OperatorListState("long", redistribute="split")

        def process(self, row: Any, ctx: Any) -> Any:
            self.seen.add(row.n)
            return row

    for result in runs(lambda s: s.process(Numbered(), SCHEMA, uid="p")):
        assert Counter(result.output("out")) == Counter(VALUES)
        kept = [n for units in result.state("p", "seen") for n in units]
        assert sorted(kept) == [n for _, n in VALUES]


# ---------------------------------------------------------------- routing


def test_union_gives_the_rows_of_all_its_streams() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        odd = s.filter(lambda row: row.n % 2, uid="odd")
        return s.union(odd, s).map(lambda row: row, SCHEMA, uid="all")

    gives(describe, VALUES * 2 + [v for v in VALUES if v[1] % 2])


def test_a_union_can_be_keyed_and_ended_directly() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        return s.union(s).key_by("k").process(Sum(), SCHEMA, uid="sum")

    for result in runs(describe):
        assert result.state("sum", "total") == {k: 2 * n for k, n in SUMS.items()}
    gives(lambda s: s.union(s), VALUES * 2)


def test_rebalance_deals_rows_out_to_all_subtasks() -> None:
    class Where(ms.Process):
        def process(self, row: Any, ctx: Any) -> Any:
            return row.n, ctx.subtask, ctx.parallelism

    def build(env: ms.Environment) -> None:
        dealt = source(env, parallelism=1).rebalance()
        dealt.process(Where(), "n long, subtask int, of int", uid="p").sink(Memory(), uid="out")

    for seed in (1, 2):
        output = run(build, parallelism=3, seed=seed, crashes=1).output("out")
        assert sorted(n for n, _, _ in output) == list(range(300))
        assert {(subtask, of) for _, subtask, of in output} == {(0, 3), (1, 3), (2, 3)}


def test_broadcast_gives_every_row_to_every_subtask() -> None:
    for parallelism, result in zip([1, 2, 3, 4], runs(lambda s: s.broadcast()), strict=True):
        assert Counter(result.output("out")) == Counter(VALUES * parallelism)


def test_operators_may_have_a_parallelism_of_their_own() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        one = s.map(lambda row: row, SCHEMA, uid="one", parallelism=1)
        three = one.filter(lambda row: True, uid="three", parallelism=3)
        return three.key_by("k").process(Sum(), SCHEMA, uid="sum", parallelism=2)

    for result in runs(describe):
        assert result.state("sum", "total") == SUMS
        assert finals(result.output("out")) == SUMS


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


# ---------------------------------------------------------------- guarantees


def test_at_least_once_loses_nothing() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        return s.key_by("k").process(Sum(), SCHEMA, uid="sum").union(s)

    for result in runs(lambda s: s.map(lambda row: row, SCHEMA, uid="m"), mode="at_least_once"):
        assert set(result.output("out")) == set(VALUES)
    for result in runs(describe, mode="at_least_once"):
        assert all(n >= SUMS[k] for k, n in result.state("sum", "total").items())


def test_runs_of_this_size_do_crash_and_are_restored_from_epochs() -> None:
    def build(env: ms.Environment) -> None:
        keyed = source(env).key_by("k")
        keyed.process(Sum(), SCHEMA, uid="sum").sink(Memory(), uid="out")

    crashed = restored = 0
    for seed in range(16):
        result = run(build, parallelism=2, seed=seed, crashes=2)
        assert result.state("sum", "total") == SUMS
        crashed += len(result.attempts) > 1
        restored += any(record.restored_from is not None for record in result.attempts)
    assert crashed >= 6
    assert restored >= 2


class Generous(Source):
    """Gives many rows at a poll, however few are asked for: one poll goes out in many pieces."""

    schema = to_schema("k string, n long")

    def plan(self, seen: frozenset[str]) -> list[Split]:
        return [Split("all")]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _GenerousReader(offset or 0)


class _GenerousReader(SplitReader):
    def __init__(self, position: int) -> None:
        self._position = position

    def poll(self, max_rows: int) -> Polled:
        taken = VALUES[self._position : self._position + 150]
        self._position += len(taken)
        batch = rows_to_batch(taken, Generous.schema, "a poll")
        return Polled(batch, self._position, finished=self._position >= len(VALUES))


def test_a_source_is_restored_in_the_middle_of_a_poll() -> None:
    def build(env: ms.Environment) -> None:
        generous = env.source(Generous(), uid="in", parallelism=1)
        generous.key_by("k").process(Sum(), SCHEMA, uid="sum").sink(Memory(), uid="out")

    restored = 0
    for seed in range(16):
        result = run(build, parallelism=2, seed=seed, crashes=4)
        assert Counter(result.output("out")) == Counter(running_sums())
        restored += any(record.restored_from is not None for record in result.attempts)
    assert restored > 0


# ---------------------------------------------------------------- errors


def fails(describe: Build, message: str) -> None:
    """Every seed ends in failure with this message, on account of a schema."""

    def build(env: ms.Environment) -> None:
        describe(source(env)).sink(Memory(), uid="out")

    for parallelism, seed, _ in RUNS:
        with pytest.raises(JobFailedError, match=message) as caught:
            run(build, parallelism=parallelism, seed=seed)
        assert isinstance(caught.value.__cause__, SchemaError)


def divide(row: Any) -> Any:
    return row.k, 1 // (row.n - 50)


@pytest.mark.parametrize("method", ["map", "process", "keyed"])
def test_an_exception_of_a_function_names_operator_subtask_and_the_users_own_lines(
    method: str,
) -> None:
    class Divide(ms.Process):
        def process(self, row: Any, ctx: Any) -> Any:
            return divide(row)

    class KeyedDivide(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            return divide(row)

    add: dict[str, Build] = {
        "map": lambda s: s.map(divide, SCHEMA, uid="bad"),
        "process": lambda s: s.process(Divide(), SCHEMA, uid="bad"),
        "keyed": lambda s: s.key_by("k").process(KeyedDivide(), SCHEMA, uid="bad"),
    }
    with pytest.raises(UserFunctionError) as caught:
        list(runs(add[method]))
    error = caught.value
    assert (error.uid, error.subtask) == ("bad", 0)
    assert error.summary.startswith("ZeroDivisionError")
    assert "return row.k, 1 // (row.n - 50)" in error.user_traceback
    assert "mainstay/runtime" not in error.user_traceback
    assert error.user_traceback.count("File ") == (1 if method == "map" else 2)
    assert "operator 'bad', subtask 0" in str(error)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (("a", "many"), r"column 'n'.*'many'"),
        (("a",), r"a row has 1 values but the schema has 2 columns \(k, n\)"),
        ({"k": "a", "m": 1}, "lacks n and has m"),
        (7, "7 is not a row"),
        (("a", 1 << 70), "column 'n'"),
    ],
)
def test_a_row_that_does_not_fit_names_the_operator_and_the_column(
    returned: Any, said: str
) -> None:
    class Give(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            return returned

    message = rf"operator 'bad'.*{said}"
    fails(lambda s: s.map(lambda row: returned, SCHEMA, uid="bad"), message)
    fails(lambda s: s.key_by("k").process(Give(), SCHEMA, uid="bad"), message)


def test_a_batch_that_does_not_fit_names_the_operator_and_both_schemas() -> None:
    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.rename_columns(["k", "m"])

    misnamed = r"operator 'bad'.*\['k', 'm'\].*k string, n long"
    fails(lambda s: s.map_batches(renamed, SCHEMA, uid="bad"), misnamed)
    no_batch = r"operator 'bad'.*RecordBatch.*not list"
    fails(lambda s: s.map_batches(lambda batch: [1], SCHEMA, uid="bad"), no_batch)


def test_a_key_that_does_not_fit_names_the_operator() -> None:
    fails(
        lambda s: s.key_by(lambda row: row.k, "long", uid="bad").filter(bool),
        r"operator 'bad'.*key function.*'[a-e]'",
    )


# ---------------------------------------------------------------- inputs and results


def totals(env: ms.Environment) -> None:
    keyed = source(env).key_by("k")
    keyed.process(Sum(), SCHEMA, uid="totals").sink(Memory(), uid="out")


def test_inputs_replace_sources_by_uid() -> None:
    result = run(totals, inputs={"in": rows(SCHEMA, [("x", 5), ("x", 6)])})
    assert result.output("out") == [("x", 5), ("x", 11)]
    assert result.state("totals", "total") == {"x": 11}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"orders": rows(SCHEMA, [])}, r"'orders'.*\['in'\]"),
        ({"totals": rows(SCHEMA, [])}, "'totals', which is no source"),
        ({"in": rows("k string", [])}, "'in'.*'k string'.*'k string, n long'"),
    ],
)
def test_inputs_that_fit_no_source_are_refused(inputs: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        run(totals, inputs=inputs)


def test_the_sinks_of_the_program_are_left_alone() -> None:
    own = Memory()

    def build(env: ms.Environment) -> None:
        source(env).sink(own, uid="out")

    assert len(run(build).output("out")) == len(VALUES)
    assert own.rows() == []


def test_a_result_has_outputs_states_and_snapshots() -> None:
    result = run(totals, parallelism=2, seed=3)
    complete = [record for record in result.snapshots if record.status == "complete"]
    assert complete
    assert [record.epoch for record in complete] == sorted(record.epoch for record in complete)
    with pytest.raises(KeyError, match=r"no sink 'elsewhere'.*\['out'\]"):
        result.output("elsewhere")


def test_a_job_without_rows_ends_with_nothing() -> None:
    result = run(totals, inputs={"in": rows(SCHEMA, [])}, parallelism=3, seed=1)
    assert result.output("out") == []
    assert result.state("totals", "total") == {}


# ---------------------------------------------------------------- determinism


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    def traced(seed: int) -> tuple[list[str], list[Any]]:
        result = run(totals, parallelism=3, seed=seed, crashes=2)
        return result.simulation.trace, result.output("out")

    assert traced(5) == traced(5)
    assert traced(5)[0] != traced(6)[0]


PROGRAM = """
import mainstay as ms
from mainstay.testing import rows, run

class Sum(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)
    by_number = ms.MapState("string", "long")

    def process(self, row, ctx):
        self.total.add(row.n)
        self.by_number.put(str(row.n), row.n)
        yield ctx.key, self.total.get()

def build(env):
    values = [("abcde"[n % 5], n) for n in range(400)]
    source = env.source(rows("k string, n long", values, splits=3), uid="in")
    keyed = source.key_by("k").process(Sum(), "k string, n long", uid="sum")
    keyed.union(source).sink(ms.connectors.Memory(), uid="out")

for seed in (1, 2, 3, 4):
    result = run(build, parallelism=2, seed=seed, crashes=6, storage_faults=3)
    print("\\n".join(result.simulation.trace))
    print(result.output("out"))
"""


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert "launch attempt 2" in first
    assert first == second


def test_a_job_is_rescaled_while_it_runs() -> None:
    def build(env: ms.Environment) -> None:
        totals = source(env).key_by("k").process(Sum(), "k string, total long", uid="sum")
        totals.sink(Memory(), uid="out")

    results = [run(build, seed=seed, rescales=[3]) for seed in range(5)]
    assert all(result.state("sum", "total") == SUMS for result in results)
    assert all(finals(result.output("out")) == SUMS for result in results)
    # One that comes when the input has ended finds nothing to rescale.
    reasons = [[attempt.reason for attempt in result.attempts] for result in results]
    assert ["rescaled", ""] in reasons

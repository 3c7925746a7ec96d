"""``aggregate``, known reductions and filters over batches, through whole jobs; and mistakes."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import GraphError, JobFailedError
from mainstay.plan.planning import plan_of
from mainstay.schema import format_schema
from mainstay.testing import Result, rows, run

SCHEMA = "k string, n int, x double"
VALUES = [("abcde"[n % 5], n if n % 7 else None, n / 2) for n in range(200)]
RUNS = [(1, 1, 0), (1, 2, 2), (2, 4, 2), (3, 1, 2), (4, 6, 3)]


def ran(build: Callable[[ms.Stream], ms.Stream], runs: tuple[int, int, int]) -> Result:
    parallelism, seed, crashes = runs
    source = rows(SCHEMA, VALUES, splits=3)

    def job(env: ms.Environment) -> None:
        build(env.source(source, uid="in")).sink(Memory(), uid="out")

    return run(job, parallelism=parallelism, seed=seed, crashes=crashes)


def numbers(key: str) -> list[int]:
    return [n for k, n, _ in VALUES if k == key and n is not None]


def latest(result: Result) -> dict[Any, tuple[Any, ...]]:
    """The row of each key with the highest count, which is the last column."""
    return {row[0]: row for row in sorted(result.output("out"), key=lambda row: row[-1])}


@pytest.mark.parametrize("runs", RUNS)
def test_aggregates_are_those_of_a_loop_in_spite_of_crashes(runs: tuple[int, int, int]) -> None:
    def build(stream: ms.Stream) -> ms.Stream:
        return stream.key_by("k").aggregate(
            total=ms.sum("n"),
            low=ms.min("n"),
            high=ms.max("x"),
            some=ms.count("n"),
            all=ms.collect("n"),
            rows=ms.count(),
            uid="totals",
        )

    result = ran(build, runs)
    state = result.state("totals", "aggregates")
    assert set(state) == set("abcde")
    for key, row in latest(result).items():
        expected = numbers(key)
        assert row[1:3] == (sum(expected), min(expected))
        assert row[4] == len(expected)
        assert sorted(row[5]) == sorted(expected)
        assert row[6] == 40
        assert tuple(state[key]) == row[1:]


@pytest.mark.parametrize("runs", RUNS)
def test_a_key_of_several_columns_is_emitted_under_their_names(runs: tuple[int, int, int]) -> None:
    result = ran(
        lambda s: s.key_by("k", "n").aggregate(m=ms.mean("x"), c=ms.count(), uid="a"), runs
    )
    found = {row[:2]: row[2:] for row in sorted(result.output("out"), key=lambda row: row[-1])}
    by_key: dict[Any, list[float]] = {}
    for k, n, x in VALUES:
        by_key.setdefault((k, n), []).append(x)
    assert found == {key: (sum(v) / len(v), len(v)) for key, v in by_key.items()}


@pytest.mark.parametrize("runs", RUNS)
def test_a_key_that_a_function_made_is_emitted_as_key(runs: tuple[int, int, int]) -> None:
    result = ran(
        lambda s: s.key_by(lambda row: row.k in "ab", "boolean").aggregate(c=ms.count(), uid="a"),
        runs,
    )
    assert latest(result) == {True: (True, 80), False: (False, 120)}
    assert result.job.tasks[-1].inputs[0].schema.names[0] == "__key" or runs[0] == 1


def test_a_union_has_a_combiner_beside_each_of_its_senders() -> None:
    source = rows(SCHEMA, VALUES)

    def job(env: ms.Environment) -> None:
        one = env.source(source, uid="one")
        other = env.source(source, uid="other", parallelism=1)
        joined = one.union(other).key_by("k")
        joined.aggregate(c=ms.count(), uid="a", parallelism=2).sink(Memory(), uid="out")

    result = run(job, parallelism=3)
    assert latest(result) == {key: (key, 80) for key in "abcde"}
    combiners = [task.id for task, spec in result.job.operators() if spec.name == "combine"]
    assert combiners == ["one", "other"]


@pytest.mark.parametrize(("built", "runs_at"), [(1, 8), (8, 1)])
def test_combiners_are_those_of_the_parallelism_that_a_job_runs_with(
    built: int, runs_at: int
) -> None:
    env = ms.Environment(parallelism=built)
    keyed = env.source(rows(SCHEMA, VALUES), uid="in").key_by("k")
    keyed.aggregate(c=ms.count(), uid="a").sink(Memory(), uid="out")
    names = [spec.name for _, spec in plan_of(env.graph().at(runs_at)).operators()]
    assert names.count("combine") == (runs_at > 1)


def test_a_combiner_takes_no_uid_that_an_operator_has() -> None:
    env = ms.Environment(parallelism=2)
    keyed = env.source(rows(SCHEMA, VALUES), uid="in").key_by("k")
    keyed.aggregate(c=ms.count(), uid="combine-1").sink(Memory(), uid="out")
    uids = [spec.uid for _, spec in plan_of(env.graph()).operators()]
    assert uids == ["in", "combine-2", "combine-1", "out"]


@pytest.mark.parametrize("rescales", [[1, 3, 1], [3, 1, 3]])
def test_aggregates_are_exact_while_combiners_come_and_go(rescales: list[int]) -> None:
    def job(env: ms.Environment) -> None:
        keyed = env.source(rows(SCHEMA, VALUES, splits=3), uid="in").key_by("k")
        keyed.aggregate(c=ms.count(), uid="a").sink(Memory(), uid="out")

    result = run(job, parallelism=rescales[-1], rescales=rescales, crashes=2, seed=5)
    assert latest(result) == {key: (key, 40) for key in "abcde"}


@pytest.mark.parametrize("keys", [[None, None, 3], [1 << 60, 5, 1 << 60], [0, 0, -1]])
def test_any_whole_number_and_null_may_be_a_key(keys: list[int | None]) -> None:
    source = rows("k long, v long", [(key, 1) for key in keys])
    result = run(
        lambda env: (
            env.source(source, uid="in")
            .key_by("k")
            .aggregate(total=ms.sum("v"), uid="a")
            .sink(Memory(), uid="out")
        ),
        parallelism=2,
    )
    state = result.state("a", "aggregates")
    assert {key: row.total for key, row in state.items()} == {k: keys.count(k) for k in keys}


def test_the_schema_of_aggregates() -> None:
    env = ms.Environment(parallelism=2)
    stream = env.source(rows("k date, i int, f float, d decimal(10,2), s string", []), uid="in")
    out = stream.key_by("k").aggregate(
        a=ms.sum("i"),
        b=ms.sum("f"),
        c=ms.sum("d"),
        d=ms.mean("i"),
        e=ms.mean("d"),
        f=ms.min("s"),
        g=ms.collect("s"),
        uid="x",
    )
    assert format_schema(out.schema) == (
        "k date, a long, b double, c decimal(20,2), d double, e decimal(14,6), f string, "
        "g array<string>"
    )


def test_a_sum_beyond_a_long_ends_the_job_by_name() -> None:
    source = rows("k string, v long", [("big", (1 << 63) - 1), ("big", 1)])

    def job(env: ms.Environment) -> None:
        keyed = env.source(source, uid="in").key_by("k")
        keyed.aggregate(total=ms.sum("v"), uid="totals").sink(Memory(), uid="out")

    with pytest.raises(JobFailedError, match="'totals': the sum 'total' of key 'big' does not fit"):
        run(job, parallelism=1)


def test_the_combiner_stands_in_the_plan() -> None:
    env = ms.Environment(parallelism=2)
    keyed = env.source(rows(SCHEMA, VALUES), uid="in").key_by("k")
    keyed.aggregate(c=ms.count(), uid="a").sink(Memory(), uid="out")
    assert "combine" in env.explain()


# ------------------------------------------------------------ reduce


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(
    ("function", "name"), [(operator.add, "sum"), (builtins.min, "min"), (builtins.max, "max")]
)
def test_known_reductions_apply_to_each_column(
    function: Any, name: str, runs: tuple[int, int, int]
) -> None:
    source = rows("a long, k string, b double", [(n, "xy"[n % 2], n / 2) for n in range(50)])

    def job(env: ms.Environment) -> None:
        reduced = env.source(source, uid="in").key_by("k").reduce(function, uid="r")
        assert reduced.schema.names == ["a", "k", "b"]
        reduced.sink(Memory(), uid="out")

    parallelism, seed, crashes = runs
    result = run(job, parallelism=parallelism, seed=seed, crashes=crashes)
    by_key = {"x": range(0, 50, 2), "y": range(1, 50, 2)}
    plain = {"sum": sum, "min": min, "max": max}[name]
    state = result.state("r", "aggregates")
    assert {key: tuple(row) for key, row in state.items()} == {
        key: (plain(values), plain(n / 2 for n in values)) for key, values in by_key.items()
    }
    assert {row[1] for row in result.output("out")} == {"x", "y"}


def test_a_known_reduction_of_a_stream_with_a_hidden_key_keeps_its_columns() -> None:
    source = rows("key long, v decimal(4,1)", [(n, Decimal(n)) for n in range(10)])

    def job(env: ms.Environment) -> None:
        keyed = env.source(source, uid="in").key_by(lambda row: row.key % 2, "int")
        reduced = keyed.reduce(max, uid="r")
        assert reduced.schema.names == ["key", "v"]
        reduced.sink(Memory(), uid="out")

    result = run(job, parallelism=2)
    assert set(result.output("out")) >= {(8, Decimal("8.0")), (9, Decimal("9.0"))}


def test_any_other_function_still_reduces_row_by_row() -> None:
    source = rows("k string, n long", [("a", n) for n in range(5)])

    def job(env: ms.Environment) -> None:
        keyed = env.source(source, uid="in").key_by("k")
        keyed.reduce(lambda x, y: ("a", x.n + y.n), uid="r").sink(Memory(), uid="out")

    assert run(job).output("out") == [("a", n) for n in (0, 1, 3, 6, 10)]


# ------------------------------------------------------------ filters


@pytest.mark.parametrize("runs", RUNS)
def test_an_expression_filters_batches(runs: tuple[int, int, int]) -> None:
    condition = (pc.field("n") > 50) & (pc.field("k") != "a")
    result = ran(lambda s: s.filter(condition, uid="f"), runs)
    assert sorted(result.output("out")) == sorted(
        row for row in VALUES if row[1] is not None and row[1] > 50 and row[0] != "a"
    )


@pytest.mark.parametrize(
    "mask",
    [
        lambda batch: pc.greater(batch["n"], 50),
        lambda batch: pa.chunked_array([pc.greater(batch["n"], 50)]),
        lambda batch: np.array([v is not None and v > 50 for v in batch["n"].to_pylist()], bool),
    ],
)
def test_a_mask_filters_batches(mask: Any) -> None:
    result = ran(lambda s: s.filter_batches(mask, uid="f"), (2, 1, 0))
    expected = [row for row in VALUES if row[1] is not None and row[1] > 50]
    assert sorted(result.output("out")) == sorted(expected)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (lambda batch: True, "must return a boolean array of pyarrow or numpy, not bool"),
        (lambda batch: batch["n"], "not Int32Array of int32"),
        (lambda batch: np.zeros(batch.num_rows), "not ndarray of float64"),
        (lambda batch: pa.array([True]), "returned 1 values for a batch of"),
        (lambda batch: np.zeros((batch.num_rows, 1), bool), "must return a boolean array"),
    ],
)
def test_what_is_no_mask_is_refused_by_name(mask: Any, message: str) -> None:
    with pytest.raises(JobFailedError, match=f"operator 'f': .*{message}"):
        ran(lambda s: s.filter_batches(mask, uid="f"), (1, 1, 0))


# ------------------------------------------------------------ a job in real time


def test_an_embedded_job_counts_every_row_once(tmp_path: Path) -> None:
    out = Memory()
    snapshots = ms.Snapshots(str(tmp_path), every="20ms")
    env = ms.Environment(spark="embedded", parallelism=2, snapshots=snapshots)
    source = rows("k long, v long", [(n % 100, n) for n in range(20_000)], splits=2)
    keyed = env.source(source, uid="in").key_by("k")
    keyed.aggregate(total=ms.sum("v"), n=ms.count(), uid="totals").sink(out, uid="out")
    assert env.start("aggregates").wait() == "finished"
    found = {row[0]: row for row in sorted(out.rows(), key=lambda row: row[2])}
    assert found == {k: (k, sum(range(k, 20_000, 100)), 200) for k in range(100)}


# ------------------------------------------------------------ mistakes

MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda k: k.aggregate(uid="a"), r"operator 'a' \(aggregate\) needs at least one aggregate"),
    (lambda k: k.aggregate(t=ms.sum("z")), r"t=sum\('z'\): there is no column 'z'; the stream has"),
    (lambda k: k.aggregate(t=ms.sum("s")), r"t=sum\('s'\): values of type string cannot be added"),
    (lambda k: k.aggregate(t=ms.mean("s")), "values of type string cannot be added up"),
    (lambda k: k.aggregate(t=ms.min("a")), "values of type array<int> have no order"),
    (lambda k: k.aggregate(k=ms.count()), "'k' has the name of a column that is emitted beside it"),
    (lambda k: k.aggregate(t="n"), "t='n' is no aggregate. Write t=ms.sum"),
    (lambda k: k.aggregate(t=sum), "is no aggregate"),
    (
        lambda k: k.aggregate(t=ms.mean("n"), t_count=ms.count()),
        "'t' and 't_count' would both be kept",
    ),
    (lambda k: ms.sum(3), r"sum\(\) needs the name of a column, as in ms.sum\(\"amount\"\), not 3"),
    (lambda k: k.reduce(operator.add), r"reduce\(operator.add\) .* but 's' is of type string"),
    (lambda k: k.reduce(max), r"reduce\(max\) .* but 'a' is of type array<int>"),
    (lambda k: k.filter(pc.field("zz") > 5), r"cannot filter rows of 'k string"),
    (lambda k: k.filter(pc.field("n")), "cannot filter rows"),
    (lambda k: k.filter(pc.field("s") > 5), "cannot filter rows"),
    (lambda k: k.filter_batches(3), r"filter_batches\(\) after .* needs a function"),
    (lambda k: k.aggregate(t=ms.count(), parallelism=0), "parallelism"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_a_mistake_is_found_before_the_job_runs(mistake: Any, message: str) -> None:
    env = ms.Environment(parallelism=2)
    schema = "k string, n long, s string, a array<int>"
    keyed = env.source(rows(schema, []), uid="in").key_by("k")
    with pytest.raises(GraphError, match=message):
        mistake(keyed)


def test_an_aggregate_may_not_have_the_name_of_a_key_that_a_function_made() -> None:
    env = ms.Environment(parallelism=2)
    keyed = env.source(rows(SCHEMA, []), uid="in").key_by(lambda row: row.k, "string")
    with pytest.raises(GraphError, match="'key' has the name of a column that is emitted"):
        keyed.aggregate(key=ms.count())


def test_a_stream_that_is_all_key_cannot_be_reduced() -> None:
    env = ms.Environment(parallelism=2)
    keyed = env.source(rows("k string", []), uid="in").key_by("k")
    with pytest.raises(GraphError, match="every column of the stream is in its key"):
        keyed.reduce(min)

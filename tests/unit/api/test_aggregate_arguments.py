"""Conditions, best rows, distinct values and functions of the author: mistakes, and odd streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import GraphError, MainstayError
from mainstay.plan import nodes
from mainstay.plan.combining import combined
from mainstay.state.aggregates import aggregation_of
from mainstay.testing import rows, run

SCHEMA = "k string, n int, x double, tags array<string>, pair struct<a:int,b:string>"
VALUES = [("a", 1, 1.5, ["x"], (1, "p")), ("b", 0, None, None, None), ("a", 3, 2.5, [], (1, "p"))]


class Latest(ms.AggregateFunction):
    def create(self) -> Any:
        return None

    def add(self, accumulator: Any, value: Any) -> Any:
        return value

    def result(self, accumulator: Any) -> Any:
        return accumulator


class Mergeable(Latest):
    def merge(self, accumulator: Any, other: Any) -> Any:
        return other


class NoAdd(ms.AggregateFunction):
    def create(self) -> Any:
        return 0

    def result(self, accumulator: Any) -> Any:
        return accumulator


def stream(env: ms.Environment | None = None) -> ms.Stream:
    env = ms.Environment() if env is None else env
    return env.source(rows(SCHEMA, VALUES), uid="in")


N = ms.col("n")
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: ms.count(where=ms.col("m") > 1),
        r"operator 't' \(aggregate\): found=count\(where=Column<\(m > 1\)>\).*no column 'm'",
    ),
    (lambda: ms.sum("n", where=N + 1), r"found=sum\('n', where=.*of type int.*true or false"),
    (lambda: ms.count(where=ms.col("k") > 1), r"found=count\(where=.*cannot be evaluated"),
    (lambda: ms.count(where="n > 1"), r"count\(where=...\) needs an expression of columns.*ms.col"),
    (lambda: ms.max("n", where=lambda row: row.n), r"max\(where=...\) needs an expression"),
    (lambda: ms.count_distinct("m"), r"found=count_distinct\('m'\): there is no column 'm'"),
    (lambda: ms.count_distinct("tags"), r"found=count_distinct\('tags'\).*array<string>"),
    (lambda: ms.count_distinct(None), r"count_distinct\(\) needs the name of a column"),
    (lambda: ms.max_by("tags", "n"), r"found=max_by\('tags', 'n'\).*have no order"),
    (lambda: ms.max_by("n", "m"), r"found=max_by\('n', 'm'\): there is no column 'm'"),
    (lambda: ms.min_by("n", ["k", "m"]), r"found=min_by\('n', \['k', 'm'\]\).*no column 'm'"),
    (lambda: ms.min_by("n", []), r"min_by\(\) needs the name of a column or a list"),
    (lambda: ms.min_by("n", ["k", "k"]), r"a column is named twice"),
    (lambda: ms.udaf(Latest(), "m", returns="int"), r"found=udaf\(Latest\(\), 'm'\).*no column"),
    (lambda: ms.udaf(Latest, "n", returns="int"), r"got the class Latest; give it an instance"),
    (lambda: ms.udaf(NoAdd(), "n", returns="int"), r"needs a method add\(\)"),
    (lambda: ms.udaf(Latest(), "n", returns="whole"), r"whole"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_a_mistake_is_named_where_the_job_is_written(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError, match=f"(?s){message}"):
        stream().key_by("k").aggregate(uid="t", found=make())


def emitted(
    build: Callable[[ms.Stream], ms.Stream], parallelism: int = 1
) -> dict[Any, tuple[Any, ...]]:
    def job(env: ms.Environment) -> None:
        build(stream(env)).sink(Memory(), uid="out")

    found = run(job, parallelism=parallelism).output("out")
    return {row[0]: tuple(row[1:]) for row in sorted(found, key=lambda row: row[-1])}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_key_without_rows_that_count_shows_null_and_no_count(parallelism: int) -> None:
    where = N > 0
    found = emitted(
        lambda s: s.key_by("k").aggregate(
            n=ms.count(where=where),
            d=ms.count_distinct("n", where=where),
            total=ms.sum("n", where=where),
            mean=ms.mean("x", where=where),
            by=ms.max_by("n", "x", where=where),
            own=ms.udaf(Mergeable(), "n", accumulator="int", returns="int", where=where),
            all=ms.collect("n", where=where),
            rows=ms.count(),
            uid="t",
        ),
        parallelism,
    )
    assert found["b"] == (0, 0, None, None, None, None, [], 1)
    assert found["a"] == (2, 2, 4, 2.0, 2.5, 3, [1, 3], 2)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_condition_sees_a_column_that_has_the_name_of_a_hidden_key(parallelism: int) -> None:
    found = emitted(
        lambda s: (
            s.map(lambda row: (row.k, row.n), "key string, n int")
            .key_by(lambda row: row.n % 2, "int")
            .aggregate(c=ms.count(where=ms.col("key") == "a"), rows=ms.count(), uid="t")
        ),
        parallelism,
    )
    assert found == {1: (2, 2), 0: (0, 1)}


def test_structs_are_counted_and_chosen() -> None:
    found = emitted(
        lambda s: s.key_by("k").aggregate(
            d=ms.count_distinct("pair"), p=ms.max_by("n", "pair"), rows=ms.count(), uid="t"
        )
    )
    assert found == {"a": (1, (1, "p"), 2), "b": (0, None, 1)}


def test_equal_conditions_are_one() -> None:
    schema = stream().schema
    aggregates = {
        "a": ms.count(where=N > 1),
        "b": ms.sum("n", where=ms.col("n") > 1),
        "c": ms.count(where=N > 2),
    }
    one, same, other = aggregation_of(aggregates, schema).accumulators
    assert one.where is same.where
    assert one.where != other.where


@pytest.mark.parametrize(("function", "is_combined"), [(Latest(), False), (Mergeable(), True)])
def test_only_what_can_be_merged_is_combined(function: Any, is_combined: bool) -> None:
    env = ms.Environment(parallelism=2)
    found = stream(env).key_by("k").aggregate(uid="t", found=ms.udaf(function, "n", returns="int"))
    found.sink(Memory(), uid="out")
    operators = combined(env.graph()).operators
    assert any(isinstance(each.node, nodes.Combine) for each in operators) is is_combined


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_condition_that_cannot_be_evaluated_names_the_aggregation(parallelism: int) -> None:
    with pytest.raises(MainstayError, match=r"operator 't'.*divide by zero"):
        emitted(
            lambda s: s.key_by("k").aggregate(
                c=ms.count(where=1 / N > 1), rows=ms.count(), uid="t"
            ),
            parallelism,
        )


class Raising(Mergeable):
    def add(self, accumulator: Any, value: Any) -> Any:
        raise ValueError(f"no {value}")


class Odd(Mergeable):
    def add(self, accumulator: Any, value: Any) -> Any:
        return "text"


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Raising(), r"operator 't', subtask \d, in add\(\): ValueError: no 1"),
        (
            Odd(),
            r"operator 't': the aggregate 'found': what Odd.add\(\) gave: 'text' .* fit",
        ),
    ],
)
def test_a_function_that_fails_names_the_aggregation(
    function: Any, message: str, parallelism: int
) -> None:
    with pytest.raises(MainstayError, match=f"(?s){message}"):
        emitted(
            lambda s: (
                s.filter(ms.col("n") == 1)
                .key_by("k")
                .aggregate(found=ms.udaf(function, "n", accumulator="int", returns="int"), uid="t")
            ),
            parallelism,
        )

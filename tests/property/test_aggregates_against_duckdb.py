"""Aggregates through crashes and rescales are those that DuckDB finds in the same rows."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.schema import to_schema
from mainstay.testing import rows, run
from tests.searching import examples

ROW = "k string, v double, s string, n long"
QUERY = """
SELECT k,
    count(*) FILTER (WHERE v > 1),
    sum(n) FILTER (WHERE s = 'a'),
    max(s) FILTER (WHERE n % 2 = 0),
    count(DISTINCT v),
    count(DISTINCT s) FILTER (WHERE v > 1 OR n > 20),
    count(DISTINCT n) FILTER (WHERE s IS NULL),
    first(s ORDER BY v DESC, n) FILTER (WHERE v IS NOT NULL),
    first(n ORDER BY s, n) FILTER (WHERE s IS NOT NULL AND n > 3),
    sum(n * n)::BIGINT,
    list(n ORDER BY n) FILTER (WHERE n % 3 = 0),
    count(*)
FROM given GROUP BY k
"""
VALUES = st.none() | st.sampled_from([0.0, -0.0, 1.0, 2.5, math.inf, -math.inf, math.nan])
ROWS = st.lists(
    st.tuples(st.sampled_from("xyz"), VALUES, st.none() | st.sampled_from("abcde")), max_size=50
)


class Squares(ms.AggregateFunction):
    """The sum of squares: it can be merged, so there are combiners."""

    def create(self) -> Any:
        return 0

    def add(self, accumulator: Any, value: Any) -> Any:
        return accumulator + value * value

    def merge(self, accumulator: Any, other: Any) -> Any:
        return accumulator + other

    def result(self, accumulator: Any) -> Any:
        return accumulator


class Thirds(ms.AggregateFunction):
    """Every third number, in order: it has no merge, so rows are sent as they are."""

    def create(self) -> Any:
        return []

    def add(self, accumulator: Any, value: Any) -> None:
        accumulator.append(value)

    def result(self, accumulator: Any) -> Any:
        return accumulator


def aggregates(*, can_combine: bool) -> dict[str, Any]:
    v, s, n = ms.col("v"), ms.col("s"), ms.col("n")
    # As Arrow compares NaN is above nothing; as DuckDB and Spark order it, it is above everything.
    is_above = (v > 1) | v.isNaN()
    thirds = ms.collect("n", where=n % 3 == 0)
    if not can_combine:
        thirds = ms.udaf(
            Thirds(), "n", accumulator="array<long>", returns="array<long>", where=n % 3 == 0
        )
    return {
        "above": ms.count(where=is_above),
        "total": ms.sum("n", where=s == "a"),
        "last": ms.max("s", where=n % 2 == 0),
        "values": ms.count_distinct("v"),
        "texts": ms.count_distinct("s", where=is_above | (n > 20)),
        "numbers": ms.count_distinct("n", where=s.isNull()),
        "top": ms.max_by("v", "s"),
        "low": ms.min_by("s", "n", where=n > 3),
        "squares": ms.udaf(Squares(), "n", accumulator="long", returns="long"),
        "thirds": thirds,
        "rows": ms.count(),
    }


def by_duckdb(given_rows: list[tuple[Any, ...]]) -> dict[Any, tuple[Any, ...]]:
    schema = to_schema(ROW)
    columns = zip(*given_rows, strict=True)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    with duckdb.connect() as connection:
        connection.register("given", pa.table(arrays, schema=schema))
        return {row[0]: row for row in connection.execute(QUERY).fetchall()}


@given(
    values=ROWS,
    parallelism=st.integers(1, 3),
    rescales=st.lists(st.integers(1, 3), max_size=1),
    seed=st.integers(0, 99),
    crashes=st.integers(0, 2),
    can_combine=st.booleans(),
)
@example([("x", math.nan, "a"), ("x", -0.0, None)] * 9, 2, [3], 1, 2, True)
@example([("x", 1.0, "b"), ("x", 1.0, "a"), ("y", None, None)] * 9, 3, [1], 4, 2, False)
@settings(max_examples=examples(25), deadline=None)
def test_aggregates_are_those_of_duckdb(
    values: list[Any],
    parallelism: int,
    rescales: list[int],
    seed: int,
    crashes: int,
    can_combine: bool,
) -> None:
    # One split: rows of several subtasks would have no order, by which equal ones are told apart.
    given_rows = [(*row, number) for number, row in enumerate(values)]
    if not given_rows:
        return
    source = rows(ROW, given_rows)

    def build(env: ms.Environment) -> None:
        keyed = env.source(source, uid="in").key_by("k")
        keyed.aggregate(uid="found", **aggregates(can_combine=can_combine)).sink(
            Memory(), uid="out"
        )

    found = run(build, parallelism=parallelism, seed=seed, crashes=crashes, rescales=rescales)
    latest = {row[0]: row for row in sorted(found.output("out"), key=lambda row: row[-1])}
    for key, expected in by_duckdb(given_rows).items():
        row = tuple(latest[key])
        # DuckDB has no list where there is nothing to list; a collection is empty then.
        thirds = expected[10] if expected[10] is not None else ([] if can_combine else None)
        assert row == (*expected[:10], thirds, expected[11])
    assert len(latest) == len({row[0] for row in given_rows})

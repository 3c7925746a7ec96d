"""Distinct values, the best row and conditions agree with a loop, however rows are divided."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mainstay as ms
from mainstay.schema import to_schema, values_of
from mainstay.state import growing
from mainstay.state.accumulating import accumulating
from mainstay.state.aggregates import aggregation_of
from mainstay.state.growing import Distinct, Elements, joined
from tests.searching import examples
from tests.unit.state.test_accumulating import NO_ORDER, VALUES, Fold, reference, same

NAN = float("nan")
TYPES = [ddl for ddl in VALUES if ddl != "array<int>"]
EXTREMES: dict[str, list[Any]] = {
    "long": [-(1 << 63), (1 << 63) - 1, 0, None],
    "double": [NAN, math.inf, -math.inf, -0.0, 0.0, None],
    "float": [NAN, -0.0, 0.0, None],
    "string": ["", "\U0001f600", "\uffff", "a", None],
}


def schema_of(ddl: str) -> pa.Schema:
    return to_schema(f"k long, v {ddl}, n long, c boolean")


@st.composite
def rows_of(draw: Any, ddl: str) -> list[list[tuple[Any, ...]]]:
    """Batches of a key, a value, the number of the row, and a condition that may be null."""
    value = st.none() | VALUES[ddl] | st.sampled_from(EXTREMES.get(ddl, [None]))
    row = st.tuples(st.integers(0, 3), value, st.booleans() | st.none())
    found, number = [], 0
    for rows in draw(st.lists(st.lists(row, max_size=10), max_size=5)):
        found.append([(k, v, number + n, c) for n, (k, v, c) in enumerate(rows)])
        number += len(rows)
    return found


def batch_of(rows: list[tuple[Any, ...]], ddl: str) -> pa.RecordBatch:
    schema = schema_of(ddl)
    columns = [pa.array([row[n] for row in rows], schema.types[n]) for n in range(4)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def identity(value: Any) -> Any:
    """Equal for values that count as one."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return tuple(map(identity, value)) if isinstance(value, tuple) else value


def order(value: Any) -> Any:
    if isinstance(value, str):
        value = value.encode()
    return (value != value, 0 if value != value else value)


def best(rows: list[Any], *, is_max: bool) -> Any:
    """The number of the best row, by a loop; the earliest of equal ones."""
    found = None
    for _, value, number, _ in rows:
        if value is None:
            continue
        better = found is None or (
            order(value) > order(found[0]) if is_max else order(value) < order(found[0])
        )
        if better:
            found = (value, number)
    return None if found is None else found[1]


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("ddl", TYPES)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_new_aggregates_agree_with_a_loop(few: int, ddl: str, data: Any) -> None:
    given_rows = data.draw(rows_of(ddl))
    combine = data.draw(st.lists(st.booleans(), min_size=len(given_rows)))
    where = ms.col("c")
    aggregates = {
        "distinct": ms.count_distinct("v"),
        "some": ms.count_distinct("v", where=where),
        "rows": ms.count(where=where),
        "known": ms.count("v", where=where),
        "one": ms.first("v", where=where),
        "all": ms.collect("v", where=where),
    }
    if ddl not in NO_ORDER:
        aggregates |= {
            "top": ms.max_by("v", "n"),
            "low": ms.min_by("v", ["n", "c"], where=where),
            "high": ms.max("v", where=where),
        }
    with pytest.MonkeyPatch.context() as patch:
        # With none of them few every set is one that grows.
        for module in ("growing", "distinct"):
            patch.setattr(f"mainstay.state.{module}.FEW", few)
        fold = Fold(aggregates, schema_of(ddl))
        for rows, combined in zip(given_rows, combine, strict=False):
            fold.fold(*fold.partials(batch_of(rows, ddl), combined))
    by_key: dict[int, list[Any]] = {}
    for rows in given_rows:
        whole = batch_of(rows, ddl)
        for row in zip(*map(values_of, whole.columns), strict=True):
            by_key.setdefault(row[0], []).append(row)
    assert set(fold.results) == set(by_key)
    for key, rows in by_key.items():
        true = [row for row in rows if row[3]]
        values, some = ([r[1] for r in which if r[1] is not None] for which in (rows, true))
        expected: list[Any] = [
            len(set(map(identity, values))),
            len(set(map(identity, some))),
            len(true),
            len(some),
            some[0] if some else None,
            some,
        ]
        if ddl not in NO_ORDER:
            low = best(true, is_max=False)
            expected += [
                best(rows, is_max=True),
                None if low is None else (low, True),
                reference("max", ddl, some),
            ]
        assert all(map(same, fold.results[key], expected)), (fold.results[key], expected)


@pytest.mark.parametrize("ddl", TYPES)
def test_merging_is_associative(ddl: str) -> None:
    values = [*EXTREMES.get(ddl, [None]), None]
    aggregates = {"d": ms.count_distinct("v"), "n": ms.count(where=ms.col("c"))}
    if ddl not in NO_ORDER:
        aggregates |= {"top": ms.max_by("v", "n"), "low": ms.min_by("v", ["n"])}
    aggregation = aggregation_of(aggregates, schema_of(ddl))
    rows = [(0, values[n % len(values)], n, n % 2 == 0) for n in range(3)]
    for part in map(accumulating, aggregation.accumulators):
        one, two, three = (
            part.from_arrow(part.first_partials(batch_of([row], ddl))) for row in rows
        )
        left = part.merge(part.merge(one, two), three)
        right = part.merge(one, part.merge(two, three))
        assert same(*(part.result(each).to_pylist() for each in (left, right)))
        # What was merged is as it was before.
        again = part.merge(part.merge(one, two), three)
        assert same(*(part.result(each).to_pylist() for each in (left, again)))


def numbers(*, of: Elements, values: Any) -> Distinct:
    return Distinct(of, np.array(values, np.int64))


def test_adding_to_an_older_version_of_a_set_leaves_the_newer_one_as_it_is() -> None:
    elements = Elements(pa.int64())
    first = numbers(of=elements, values=range(100)).with_all((1000,))
    second = first.with_all((2000, 5))
    other = first.with_all((3000,))
    assert list(first) == [*range(100), 1000]
    assert list(second) == [*range(100), 1000, 2000]
    assert list(other) == [*range(100), 1000, 3000]


def test_adding_nothing_new_gives_the_same_set() -> None:
    elements = Elements(pa.int64())
    kept = numbers(of=elements, values=range(100)).with_all((1000,))
    assert kept.with_all((1000, 7)) is kept
    assert joined(elements, (1, 2), (2, 1)) == (1, 2)


@given(st.lists(st.lists(st.integers(0, 400), max_size=300), max_size=8))
@settings(max_examples=examples(50), deadline=None)
def test_a_set_is_the_same_whichever_index_it_has(batches: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_BULK", 20)
        patch.setattr(growing, "_MANY", 150)
        elements, kept = Elements(pa.int64()), ()
        expected: dict[int, None] = {}
        for values in batches:
            distinct = tuple(dict.fromkeys(values))
            kept = joined(elements, kept, distinct)  # type: ignore[assignment]
            expected.update(dict.fromkeys(distinct))
        assert list(kept) == list(expected)
        assert len(kept) == len(expected)


def test_a_large_set_costs_what_is_added_to_it() -> None:
    elements = Elements(pa.int64())
    kept = numbers(of=elements, values=range(1 << 18)).with_all((-1,))
    before = kept.flat()
    grown = kept.with_all((-2,))
    assert np.shares_memory(before, grown.flat())

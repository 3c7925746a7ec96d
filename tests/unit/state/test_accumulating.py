"""Each accumulator agrees with a loop over rows, however the rows are divided on their way."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.errors import GraphError
from mainstay.schema import to_schema, values_of
from mainstay.state.accumulating import DoesNotFitError, accumulating, result
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.backends.heap.columns import HeapColumns
from mainstay.state.grouping import Grouper
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType
from tests.searching import examples

FUNCTIONS = ("sum", "count", "min", "max", "mean", "first", "last", "collect")
LARGE = 1 << 59
VALUES: dict[str, Any] = {
    "byte": st.integers(-128, 127),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-LARGE, LARGE),
    "float": st.floats(-100, 100, width=16) | st.just(float("nan")),
    "double": st.integers(-1000, 1000).map(float) | st.sampled_from([float("nan"), math.inf]),
    "decimal(10,2)": st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-2)),
    "decimal(38,6)": st.integers(-(10**37), 10**37).map(lambda n: Decimal(n).scaleb(-6)),
    "string": st.text(max_size=3),
    "binary": st.binary(max_size=3),
    "boolean": st.booleans(),
    "date": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "timestamp": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
        lambda t: t.replace(tzinfo=timezone.utc)
    ),
    "array<int>": st.lists(st.integers(0, 9), max_size=2),
    "struct<a:int,b:string>": st.tuples(st.integers(0, 9), st.text(max_size=1)),
}
NO_SUM = {"string", "binary", "boolean", "date", "timestamp", "array<int>"}
NO_ORDER = {"array<int>", "struct<a:int,b:string>"}


def kinds_of(ddl: str) -> list[str]:
    summed = () if ddl in NO_SUM | NO_ORDER else ("sum", "mean")
    if ddl == "long":
        summed = ("sum",)  # the mean of such large numbers depends on their order
    if ddl == "decimal(38,6)":
        summed = ()  # two of them may be too much already
    ordered = () if ddl in NO_ORDER else ("min", "max")
    return ["count", "first", "last", "collect", *summed, *ordered]


def reference(function: str, ddl: str, values: list[Any]) -> Any:
    """What an aggregate of the values of one key is, by a loop."""
    known = [value for value in values if value is not None]
    if function == "count":
        return len(known)
    if function == "collect":
        return known
    if not known:
        return None
    if function in ("first", "last"):
        return known[0 if function == "first" else -1]
    if function in ("min", "max"):
        return (min if function == "min" else max)(known, key=_above_all_is_nan)
    total = sum(map(float, known)) if ddl in ("float", "double") else sum(known)
    if function == "sum":
        return total
    if isinstance(total, Decimal):
        scale = min(6 if ddl == "decimal(10,2)" else 10, 38)
        return (total / len(known)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return float(sum(map(float, known))) / len(known)


def _above_all_is_nan(value: Any) -> Any:
    return (value != value, 0 if value != value else value)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (one != one and other != other) or one == other
    return bool(one == other)


class Fold:
    """The path of an aggregation without the operators: batches in, the last result by key out."""

    def __init__(self, aggregates: dict[str, Aggregate], schema: pa.Schema) -> None:
        self.aggregation = aggregation_of(aggregates, schema)
        self.parts = [accumulating(each) for each in self.aggregation.accumulators]
        self.table = HeapColumns(self.aggregation.state(), StoredKey.of(ValueType.of("long")))
        self.results: dict[Any, list[Any]] = {}

    def partials(self, batch: pa.RecordBatch, combine: bool) -> tuple[pa.Array, list[pa.Array]]:
        keys, partials = batch.column(0), [part.first_partials(batch) for part in self.parts]
        if not combine:
            return keys, partials
        groups = Grouper().group(keys)
        columns = [p.combine(c, groups) for p, c in zip(self.parts, partials, strict=True)]
        arrays = [p.to_arrow(c) for p, c in zip(self.parts, columns, strict=True)]
        for part, array in zip(self.parts, arrays, strict=True):
            array.validate(full=True)
            assert array.type == part.type
        return keys.take(pa.array(groups.rows)), arrays

    def fold(self, keys: pa.Array, partials: list[pa.Array]) -> None:
        groups = Grouper().group(keys)
        distinct = keys.take(pa.array(groups.rows))
        columns = [p.combine(c, groups) for p, c in zip(self.parts, partials, strict=True)]
        kept = self.table.fold(distinct, columns)
        outputs = [result(output, kept, self.parts) for output in self.aggregation.outputs]
        for array, output in zip(outputs, self.aggregation.outputs, strict=True):
            array.validate(full=True)
            assert array.type == output.type
        rows = zip(*map(values_of, outputs), strict=True)
        self.results.update(zip(distinct.to_pylist(), map(list, rows), strict=True))


@st.composite
def batches(draw: Any, ddl: str) -> list[pa.RecordBatch]:
    """Batches of keys and values, some of them slices of longer ones."""
    schema = to_schema(f"k long, v {ddl}")
    value = st.none() | VALUES[ddl]
    found = []
    for rows in draw(st.lists(st.lists(st.tuples(st.integers(0, 3), value), max_size=8))):
        columns = [pa.array([row[n] for row in rows], schema.types[n]) for n in range(2)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        found.append(batch.slice(draw(st.integers(0, len(rows)))))
    return found


@pytest.mark.parametrize("ddl", VALUES)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_all_aggregates_of_a_type_agree_with_a_loop(ddl: str, data: Any) -> None:
    given_batches = data.draw(batches(ddl))
    combine = data.draw(st.lists(st.booleans(), min_size=len(given_batches)))
    kinds = kinds_of(ddl)
    aggregates = {kind: Aggregate(kind, "v") for kind in kinds}
    fold = Fold(aggregates | {"rows": Aggregate("count")}, to_schema(f"k long, v {ddl}"))
    by_key: dict[int, list[Any]] = {}
    for batch, combined in zip(given_batches, combine, strict=False):
        fold.fold(*fold.partials(batch, combined))
        for key, value in zip(*map(values_of, batch.columns), strict=True):
            by_key.setdefault(key, []).append(value)
    assert set(fold.results) == set(by_key)
    for key, values in by_key.items():
        expected = [reference(kind, ddl, values) for kind in kinds] + [len(values)]
        got = fold.results[key]
        assert all(map(same, got, expected)), f"key {key}: {got} is not {expected}"


BEYOND = [
    ("long", [(1 << 62), (1 << 62), 5]),
    ("long", [-(1 << 63), -1]),
    ("long", [(1 << 63) - 1] * 5),
    ("decimal(38,0)", [Decimal(9) * 10**37, Decimal(9) * 10**37]),
]


@pytest.mark.parametrize(("ddl", "values"), BEYOND)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_sum_beyond_its_type_is_refused_by_name(ddl: str, values: Any, at_once: bool) -> None:
    schema = to_schema(f"k long, v {ddl}")
    fold = Fold({"total": Aggregate("sum", "v")}, schema)
    keys, amounts = [4, 3] + [7] * len(values), [1, 2, *values]
    columns = [pa.array(keys, pa.int64()), pa.array(amounts, schema.types[1])]
    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
    size = whole.num_rows if at_once else 1

    def fold_all() -> None:
        for start in range(0, whole.num_rows, size):
            fold.fold(*fold.partials(whole.slice(start, size), False))

    with pytest.raises(DoesNotFitError) as refused:
        fold_all()
    assert refused.value.accumulator.of == "total"
    assert refused.value.position == (2 if at_once else 0)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
def test_large_numbers_are_added_exactly_or_refused(values: list[int]) -> None:
    fold = Fold({"total": Aggregate("sum", "v")}, to_schema("k long, v long"))
    columns = [pa.array([1] * len(values), pa.int64()), pa.array(values, pa.int64())]
    batch = pa.record_batch(columns, names=["k", "v"])
    fits = -(1 << 63) <= sum(values) < 1 << 63
    if fits or not values:
        fold.fold(*fold.partials(batch, True))
        assert fold.results == ({1: [sum(values)]} if values else {})
    else:
        with pytest.raises(DoesNotFitError):
            fold.fold(*fold.partials(batch, True))


def test_what_is_emitted_does_not_change_with_what_comes_later() -> None:
    fold = Fold({"v": Aggregate("last", "v")}, to_schema("k long, v long"))
    part = fold.parts[0]
    keys = pa.array([1, 2])
    first = fold.table.fold(keys, [(np.array([10, 20]), None)])[0]
    emitted = part.to_arrow(first)
    fold.table.fold(keys, [(np.array([30, 40]), None)])
    assert emitted.to_pylist() == [10, 20]


def test_two_aggregates_may_not_be_kept_under_one_name() -> None:
    aggregates = {"a": Aggregate("mean", "v"), "a_sum": Aggregate("sum", "v")}
    with pytest.raises(GraphError, match=r"'a' and 'a_sum' would both be kept .* 'a_sum'"):
        aggregation_of(aggregates, to_schema("v long"))


def test_the_fields_of_the_state_are_named_after_the_aggregates() -> None:
    aggregates = {"total": Aggregate("sum", "v"), "avg": Aggregate("mean", "v")}
    state = aggregation_of(aggregates, to_schema("v int")).state()
    assert state.value.ddl == "struct<total:long,avg_sum:double,avg_count:long>"

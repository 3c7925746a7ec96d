"""Rows are put in order and compared by columns as one by one."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.state.ordering import By, are_before, in_order, places

LONGS = st.sampled_from([-(1 << 63), -1, 0, 3, (1 << 63) - 1])
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b"]))
NUMBERS = st.one_of(st.none(), st.sampled_from([-1.5, 0.0, 2.0, float("nan")]))
ROWS = st.lists(st.tuples(LONGS, TEXTS, NUMBERS), max_size=30)
TYPES = [pa.int64(), pa.string(), pa.float64()]
ORDERS = st.tuples(st.booleans(), st.booleans(), st.booleans())


def columns_of(rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return [pa.array(values, arrow) for values, arrow in zip(columns, TYPES, strict=True)]


def compared(one: Any, other: Any, is_ascending: bool) -> int:
    """Null is behind everything, and NaN above every number."""
    if one is None or other is None:
        return (one is None) - (other is None)
    one, other = ((value != value, 0 if value != value else value) for value in (one, other))
    sign = (one > other) - (one < other)
    return sign if is_ascending else -sign


def compared_rows(one: Any, other: Any, ascending: tuple[bool, ...]) -> int:
    signs = (compared(*pair) for pair in zip(one, other, ascending, strict=True))
    return next((sign for sign in signs if sign), 0)


@given(ROWS, ORDERS)
def test_rows_are_put_in_order(rows: list[Any], ascending: tuple[bool, ...]) -> None:
    by = [By(number, each) for number, each in enumerate(ascending)]
    key = cmp_to_key(lambda one, other: compared_rows(rows[one], rows[other], ascending))
    expected = sorted(range(len(rows)), key=key)
    assert in_order(columns_of(rows), by).tolist() == expected
    groups = np.arange(len(rows)) % 3
    within = sorted(expected, key=lambda row: row % 3)
    assert in_order(columns_of(rows), by, groups).tolist() == within


@given(st.lists(st.tuples(*[st.tuples(LONGS, TEXTS, NUMBERS)] * 2), min_size=1), ORDERS)
def test_rows_are_compared_with_those_beside_them(
    pairs: list[Any], ascending: tuple[bool, ...]
) -> None:
    by = [By(number, each) for number, each in enumerate(ascending)]
    first, second = (columns_of([pair[side] for pair in pairs]) for side in (0, 1))
    expected = [compared_rows(*pair, ascending) < 0 for pair in pairs]
    assert are_before(first, second, by).tolist() == expected


@pytest.mark.parametrize("is_ascending", [True, False])
def test_equal_rows_have_the_same_place(is_ascending: bool) -> None:
    columns = [pa.array([5, 1, 5, 5]), pa.array(["x", "x", "x", None])]
    found = places(columns, [By(0, is_ascending), By(1, True)]).tolist()
    assert found[0] == found[2]
    assert (found[1] < found[0]) == is_ascending
    assert found[3] > found[0]

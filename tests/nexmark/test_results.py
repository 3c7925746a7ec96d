"""Comparing results: what counts as the same, and what is said where they differ."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from benchmarks.nexmark.results import compare, last_per_key

EXPECTED = pa.table({"a": [1, 2, 2], "b": ["x", "y", "y"]})


def test_order_does_not_count() -> None:
    compare(pa.table({"a": [2, 1, 2], "b": ["y", "x", "y"]}), EXPECTED)


def test_a_row_that_comes_too_seldom_is_shown() -> None:
    with pytest.raises(
        AssertionError, match=r"2 rows, and 3 .*\nMissing \(1\):\n    1 × a=2, b='y'"
    ):
        compare(pa.table({"a": [1, 2], "b": ["x", "y"]}), EXPECTED)


def test_a_row_in_the_place_of_another_is_shown_with_it() -> None:
    with pytest.raises(AssertionError, match=r"Missing \(1\):\n.*b='x'\nToo many \(1\):\n.*b='z'"):
        compare(pa.table({"a": [1, 2, 2], "b": ["z", "y", "y"]}), EXPECTED)


def test_of_many_differences_a_few_are_shown() -> None:
    with pytest.raises(AssertionError, match="and 95 more"):
        compare(pa.table({"a": range(100)}), pa.table({"a": pa.array([], pa.int64())}))


def test_another_type_is_a_difference() -> None:
    with pytest.raises(AssertionError, match="a double, b string"):
        compare(pa.table({"a": [1.0, 2.0, 2.0], "b": ["x", "y", "y"]}), EXPECTED)


def test_nulls_and_decimals_are_compared() -> None:
    values = [None, Decimal("1.50")]
    table = pa.table({"a": pa.array(values, pa.decimal128(23, 3))})
    compare(table, pa.table({"a": pa.array(values[::-1], pa.decimal128(23, 3))}))


def test_the_last_row_of_a_key_is_the_last_in_the_table_or_by_an_order() -> None:
    table = pa.table({"k": [1, 2, 1], "n": [5, 6, 4]})
    compare(last_per_key(table, ["k"]), pa.table({"k": [2, 1], "n": [6, 4]}))
    compare(last_per_key(table, ["k"], ["n"]), pa.table({"k": [1, 2], "n": [5, 6]}))

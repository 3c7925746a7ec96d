"""Rows with the same key are in the same group, whatever the keys are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.state import grouping
from mainstay.state.grouping import Grouper, scattered

OTHER_NAN = -float("nan")
"""The same number with other bits, as numpy gives for 0/0."""
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
COLUMNS = st.one_of(
    st.lists(st.integers(-5, 5)).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.sampled_from([-(1 << 63), -1, 0, 1, 1 << 40, (1 << 63) - 1])).map(
        lambda v: pa.array(v, pa.int64())
    ),
    st.lists(LONGS).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.integers(-128, 127)).map(lambda v: pa.array(v, pa.int8())),
    st.lists(st.one_of(st.none(), LONGS)).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.integers(-1000, 1000)).map(lambda v: pa.array(v, pa.date32())),
    st.lists(LONGS).map(lambda v: pa.array(v, pa.int64()).cast(pa.timestamp("us", "UTC"))),
    st.lists(st.one_of(st.none(), st.text(max_size=2))).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan"), OTHER_NAN, None])).map(
        lambda v: pa.array(v, pa.float64())
    ),
)


def identity(value: Any) -> Any:
    """What makes a key the same key: -0.0 is 0.0, and every NaN the same."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value


def values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return [identity(value) for value in column.to_pylist()]


@given(COLUMNS, st.integers(0, 3))
def test_rows_are_in_one_group_exactly_when_their_keys_are_equal(column: Any, skipped: int) -> None:
    column = column.slice(min(skipped, len(column)))
    keys = values(column)
    groups = Grouper().group(column)
    codes = list(range(len(keys))) if groups.codes is None else groups.codes.tolist()
    assert len(codes) == len(keys)
    assert groups.count == len(set(keys))
    for key, code in zip(keys, codes, strict=True):
        assert keys[groups.rows[code]] == key


def test_a_table_that_was_used_before_changes_nothing() -> None:
    grouper = Grouper()
    for seed in range(30):
        random = np.random.default_rng(seed)
        spread = 1 << int(random.integers(1, 62))
        keys = random.integers(-spread, spread, int(random.integers(1, 500)))
        groups = grouper.group(pa.array(keys))
        assert groups.count == len(np.unique(keys))
        codes = np.arange(len(keys)) if groups.codes is None else groups.codes
        assert (keys[groups.rows][codes] == keys).all()


def test_keys_that_share_a_place_are_told_apart_in_another_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = []

    def crowded(words: Any, bits: int, round_: int = 0) -> Any:
        rounds.append(round_)
        return scattered(words, bits, round_) if round_ > 2 else np.zeros(len(words), np.int64)

    monkeypatch.setattr(grouping, "scattered", crowded)
    keys = np.array([1, 1 << 50, 1, 1 << 40, 1 << 50, 7])
    groups = Grouper().group(pa.array(keys))
    assert groups.count == 4
    assert groups.codes is not None
    assert (keys[groups.rows][groups.codes] == keys).all()
    assert rounds[-1] >= 2


@given(st.lists(LONGS), st.integers(4, 20), st.integers(0, 40))
def test_a_hash_stays_within_its_bits(words: list[int], bits: int, round_: int) -> None:
    hashed = scattered(np.array(words, np.int64), bits, round_)
    assert ((hashed >= 0) & (hashed < 1 << bits)).all()

"""A key has one slot for ever, slots are given in order, and growing holds nobody up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.state import slots as slots_module
from mainstay.state.slots import ObjectSlots, StructSlots, WordSlots, slots_for
from mainstay.state.values import ValueType

LONGS = st.one_of(
    st.integers(-50, 50),
    st.integers(10_000, 10_200),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([-(1 << 63), (1 << 63) - 1, (1 << 63) - 2]),
    st.none(),
)


def same_as_a_dictionary(slots: Any, arrow: pa.DataType, batches: list[list[Any]]) -> None:
    model: dict[Any, int] = {}
    for batch in batches:
        keys = list(dict.fromkeys(batch))
        found = slots.of(pa.array(keys, arrow)).tolist()
        known = len(model)
        for key, slot in zip(keys, found, strict=True):
            assert model.setdefault(key, slot) == slot
        assert sorted(model.values()) == list(range(len(slots)))
        assert sorted(s for k, s in model.items() if s >= known) == list(range(known, len(model)))
    numbers = np.array(list(model.values()), np.int64)
    assert slots.keys(numbers).to_pylist() == list(model)
    for key, slot in model.items():
        assert slots.find(key) == slot


@given(st.lists(st.lists(LONGS, max_size=40), max_size=10))
def test_slots_of_whole_numbers_are_those_of_a_dictionary(batches: list[list[Any]]) -> None:
    slots = slots_for(ValueType.of("long"))
    assert isinstance(slots, WordSlots)
    same_as_a_dictionary(slots, pa.int64(), batches)


@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=2)), max_size=20), max_size=5))
def test_slots_of_other_keys_are_those_of_a_dictionary(batches: list[list[Any]]) -> None:
    slots = slots_for(ValueType.of("string"))
    assert isinstance(slots, ObjectSlots)
    same_as_a_dictionary(slots, pa.string(), batches)


@pytest.mark.parametrize("apart", [1, 3, 1 << 33, -(1 << 40), 0x9E3779B97F])
def test_many_keys_are_found_while_they_are_moved_and_afterwards(
    monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    monkeypatch.setattr(slots_module, "_FIRST_CAPACITY", 8)
    monkeypatch.setattr(slots_module, "_MOVED_AT_ONCE", 16)
    monkeypatch.setattr(slots_module, "_SMALLEST_WINDOW", 4)
    random = np.random.default_rng(3)
    slots = WordSlots(ValueType.of("long"))
    model: dict[int, int] = {}
    for _ in range(300):
        size = int(random.choice([1, 5, 40]))
        keys = np.unique(random.integers(0, 4000, size) * apart)
        for key, slot in zip(keys.tolist(), slots.of(pa.array(keys)).tolist(), strict=True):
            assert model.setdefault(key, slot) == slot
    assert sorted(model.values()) == list(range(len(slots)))
    every = pa.array(list(model), pa.int64())
    assert slots.of(every).tolist() == list(model.values())


def test_a_key_far_away_leaves_the_window_where_it_is() -> None:
    slots = WordSlots(ValueType.of("long"))
    slots.of(pa.array(range(1000)))
    window = slots._window
    assert slots.of(pa.array([1 << 60])).tolist() == [1000]
    assert slots._window is window
    assert slots.of(pa.array([5, 1 << 60, 999])).tolist() == [5, 1000, 999]


def test_keys_that_came_before_the_window_enter_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = WordSlots(ValueType.of("long"))
    assert slots.of(pa.array([90_000, None, 10])).tolist() == [0, 2, 1]
    assert slots._table.count
    slots.of(pa.array(range(0, 100_000, 5)))

    def refuse(self: Any, words: Any) -> Any:
        raise AssertionError("a table was asked")

    monkeypatch.setattr(slots_module._Table, "lookup", refuse)
    assert slots.of(pa.array([90_000, None, 10])).tolist() == [0, 2, 1]
    assert slots.of(pa.array([0])).tolist() == [3]


def test_a_window_grows_down_as_well_as_up() -> None:
    slots = WordSlots(ValueType.of("long"))
    for start in range(0, 20_000, 500):
        slots.of(pa.array(range(start, start + 500)))
        slots.of(pa.array(range(-start - 500, -start)))
    assert len(slots._window) >= 40_000
    assert slots.of(pa.array([0, -500, 19_999])).tolist() == [0, 500, 39_499]


def test_a_large_table_is_not_rebuilt_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "_MOVED_AT_ONCE", 100)
    slots = WordSlots(ValueType.of("long"))
    inserted: list[int] = []
    right = slots_module._Table.insert

    def counted(self: Any, words: Any, numbers: Any) -> None:
        inserted.append(len(words))
        right(self, words, numbers)

    monkeypatch.setattr(slots_module._Table, "insert", counted)
    for start in range(0, 50_000, 10):
        slots.of(pa.array(np.arange(start, start + 10) * (1 << 40)))
    assert max(inserted) <= 100
    assert sum(inserted) < 4 * 50_000


@pytest.mark.parametrize("ddl", ["int", "short", "byte", "date", "timestamp", "timestamp_ntz"])
def test_keys_come_back_in_their_own_type(ddl: str) -> None:
    key = ValueType.of(ddl)
    slots = slots_for(key)
    keys = pa.array([3, None, -7], pa.int64()).cast(pa.int32() if ddl == "date" else pa.int64())
    column = keys.cast(key.arrow)
    assert slots.of(column).tolist() in ([0, 1, 2], [0, 2, 1])
    assert slots.keys(slots.of(column)).equals(column)


FIELDS = st.tuples(LONGS, st.sampled_from([None, "a", "b", "c"]), st.integers(-2, 2))
STRUCTS = st.one_of(st.none(), FIELDS)


@given(st.lists(st.lists(STRUCTS, max_size=40), max_size=10))
def test_slots_of_several_fields_are_those_of_a_dictionary(batches: list[list[Any]]) -> None:
    key = ValueType.of("struct<a:long,b:string,c:int>")
    slots = slots_for(key)
    assert isinstance(slots, StructSlots)
    model: dict[Any, int] = {}
    for batch in batches:
        keys = list(dict.fromkeys(batch))
        for each, slot in zip(keys, slots.of(key.to_array(keys)).tolist(), strict=True):
            assert model.setdefault(each, slot) == slot
        assert sorted(model.values()) == list(range(len(slots)))
    numbers = np.array(list(model.values()), np.int64)
    assert key.from_array(slots.keys(numbers)) == list(model)
    for each, slot in model.items():
        assert slots.find(each) == slot
    assert slots.find((7, "never", 7)) is None


def test_zeros_and_nans_are_one_key_within_structs() -> None:
    key = ValueType.of("struct<x:double,y:long>")
    rows = [{"x": 0.0, "y": 1}, {"x": float("nan"), "y": 1}]
    same = [{"x": -0.0, "y": 1}, {"x": -float("nan"), "y": 1}]
    slots = slots_for(key)
    assert slots.of(pa.array(rows, key.arrow)).tolist() == [0, 1]
    assert slots.of(pa.array(same, key.arrow)).tolist() == [0, 1]

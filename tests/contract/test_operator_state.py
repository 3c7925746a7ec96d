"""What operator state must do: a list per subtask that is nobody else's."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from mainstay.errors import StateTypeError
from mainstay.state.declaration import OperatorListState
from mainstay.state.operator import OperatorList


def opened(value_type: Any = None, redistribute: str = "split") -> OperatorList:
    class Function:
        offsets = OperatorListState(value_type, redistribute)

    return OperatorList(Function.offsets.info())


def restored(state: OperatorList, kept: list[Any]) -> OperatorList:
    again = OperatorList(state.info)
    again.restore(state.encode(kept))
    return again


def test_a_list_is_empty_to_begin_with():
    state = opened("long")
    assert state.get() == []
    assert restored(state, state.copy_units()).get() == []


def test_elements_are_added_replaced_and_cleared():
    state = opened("long")
    state.add(1)
    state.extend([2, 3])
    state.extend(iter([4]))
    assert state.get() == [1, 2, 3, 4]
    state.update([9])
    assert state.get() == [9]
    state.extend([])
    assert state.get() == [9]
    state.clear()
    assert state.get() == []


@pytest.mark.parametrize("nothing", [[], (), None])
def test_updating_with_nothing_clears(nothing):
    state = opened("long")
    state.add(1)
    state.update(nothing)
    assert state.get() == []


@pytest.mark.parametrize("value_type", ["long", None])
def test_none_is_no_element_and_a_refused_change_changes_nothing(value_type):
    state = opened(value_type)
    state.add(1)
    for change in (
        lambda: state.add(None),
        lambda: state.extend([2, None]),
        lambda: state.update([2, None]),
        lambda: state.extend("text"),
    ):
        with pytest.raises(StateTypeError, match="state 'offsets'"):
            change()
    assert state.get() == [1]


def test_a_wrong_type_is_refused_with_the_name_of_the_state():
    with pytest.raises(StateTypeError, match=r"state 'offsets': 'x' \(str\).* long"):
        opened("long").add("x")


def test_what_is_returned_is_a_copy():
    state = opened("array<long>")
    given = [1]
    state.add(given)
    given.append(2)
    state.get().append([3])
    state.get()[0].append(4)
    assert state.get() == [[1]]


@pytest.mark.parametrize("value_type", ["struct<path:string,seen:array<long>>", None])
def test_changes_after_the_copy_are_not_in_the_snapshot(value_type):
    state = opened(value_type)
    state.add(("a", [1]))
    kept = state.copy_units()
    state.get()[0][1].append(2)
    state.add(("b", [2]))
    assert restored(state, kept).get() == [("a", [1])]
    state.clear()
    assert restored(state, kept).get() == [("a", [1])]


def test_a_restored_list_goes_on():
    state = opened("string")
    state.add("a")
    again = restored(state, state.copy_units())
    again.add("b")
    assert again.get() == ["a", "b"]
    assert state.get() == ["a"]


def test_the_units_say_how_many_they_are_and_how_they_move():
    state = opened("long", "union")
    state.extend([1, 2])
    encoded = state.encode(state.copy_units())
    assert (encoded.mode, encoded.count) == ("union", 2)


@pytest.mark.parametrize(
    ("value_type", "elements"),
    [
        ("boolean", [True, False]),
        ("byte", [-128, 127]),
        ("long", [-(1 << 63), (1 << 63) - 1]),
        ("float", [0.5, -0.0, math.inf]),
        ("double", [0.1, math.nan, -0.0]),
        ("decimal(10,2)", [Decimal("1.50")]),
        ("string", ["", "Grüße 🌍"]),
        ("binary", [b"", b"\x00\xff"]),
        ("date", [date(1, 1, 1)]),
        ("timestamp", [datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=timezone.utc)]),
        ("timestamp_ntz", [datetime(2024, 1, 1)]),
        ("array<long>", [[], [1, None]]),
        ("map<string,array<int>>", [{}, {"a": [1], "b": None}]),
        ("struct<a:int,b:array<string>>", [(1, ["x"]), (None, None)]),
        (None, [5, "x", (1, [2]), {"a": {1}}, [None]]),
    ],
)
def test_every_type_comes_back_as_it_was(value_type, elements):
    state = opened(value_type)
    state.extend(elements)
    found = restored(state, state.copy_units()).get()
    assert [(type(item), repr(item)) for item in found] == [
        (type(item), repr(item)) for item in state.get()
    ]
    assert len(found) == len(elements)

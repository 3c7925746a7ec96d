"""Sets of many keys in arrays hold what Python sets hold, in the order in which values came."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.state.growing import FEW, Distinct, Elements, continues
from mainstay.state.key_sets import KeptSets, KeySets
from mainstay.state.value_lists import ValueLists

TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "longs": (pa.int64(), lambda n: n * 7919 - 5000),
    "dates": (pa.date32(), lambda n: n),
    "doubles": (pa.float64(), lambda n: float("nan") if n == 3 else n / 7),
    "texts": (pa.string(), lambda n: f"t{n}"),
    "structs": (pa.struct([("a", pa.int64())]), lambda n: {"a": n}),
}


def lists_of(elements: Elements, given: list[list[Any]]) -> ValueLists:
    column = pa.array([each for some in given for each in some], elements.arrow)
    lengths = np.array([len(some) for some in given], np.int64)
    return ValueLists(elements, elements.packed(column), lengths)


def values_in(lists: ValueLists) -> list[list[str]]:
    """The values of each list, as texts: NaN is no other NaN's equal."""
    flat, found, start = [repr(each) for each in lists.column().to_pylist()], [], 0
    for length in lists.lengths.tolist():
        found.append(flat[start : start + length])
        start += length
    return found


@pytest.mark.parametrize("name", TYPES)
def test_sets_hold_what_dictionaries_hold_in_their_order(name: str) -> None:
    arrow, make = TYPES[name]
    elements, random = Elements(arrow), Random(name)
    sets = KeySets(elements)
    known: list[dict[str, None]] = []
    for _ in range(40):
        known += [{} for _ in sets.new(random.randint(0, 3))]
        chosen = random.sample(range(len(known)), random.randint(0, len(known)))
        given = [
            random.sample(range(random.choice([9, 500])), random.randint(0, 9)) for _ in chosen
        ]
        sets.add(np.array(chosen, np.int64), lists_of(elements, [[*map(make, g)] for g in given]))
        for place, numbers in zip(chosen, given, strict=True):
            column = pa.array([make(n) for n in numbers], arrow).to_pylist()
            known[place] |= dict.fromkeys(map(repr, column))
        every = np.arange(len(known))
        counts = sets.counts(every)
        assert counts.tolist() == [len(each) for each in known]
        found = sets.lists(every, np.zeros_like(counts), counts)
        assert values_in(found) == [list(each) for each in known]
        half = counts // 2
        assert values_in(sets.lists(every, half, counts)) == [
            list(each)[len(each) // 2 :] for each in known
        ]
    assert len(sets) == sum(map(len, known))


def test_values_that_come_twice_in_a_list_of_a_file_count_once() -> None:
    elements = Elements(pa.int64())
    sets = KeySets(elements)
    own = sets.new(2)
    sets.add(own, lists_of(elements, [[1, 1, 2], [1, 3, 3]]), are_distinct=False)
    assert sets.counts(own).tolist() == [2, 2]
    assert values_in(KeptSets(sets, own, sets.counts(own)).lists()) == [["1", "2"], ["1", "3"]]


def test_what_was_kept_stays_while_sets_grow() -> None:
    elements = Elements(pa.string())
    sets = KeySets(elements)
    own = sets.new(3)
    sets.add(own, lists_of(elements, [["a"], [], ["b", "c"]]))
    kept = KeptSets(sets, own, sets.counts(own))
    for n in range(50):
        sets.add(own[::-1], lists_of(elements, [[f"x{n}"], [f"y{n}"], [f"z{n}", "a"]]))
    assert kept.tolist() == [("a",), (), ("b", "c")]
    assert kept[1:].tolist() == [(), ("b", "c")]
    assert kept[np.array([True, False, True])].lengths.tolist() == [1, 2]


def test_lists_of_some_keys_are_theirs() -> None:
    elements = Elements(pa.int64())
    lists = lists_of(elements, [[1, 2], [], [3], [*range(FEW + 5)]])
    assert values_in(lists[np.array([2, 0])]) == [["3"], ["1", "2"]]
    assert values_in(lists[1:3]) == [[], ["3"]]
    one, none, another, many = lists.tolist()
    assert (one, none, another) == ((1, 2), (), (3,))
    assert isinstance(many, Distinct)
    assert many.flat().tolist() == list(range(FEW + 5))


def test_it_is_known_of_a_set_that_it_is_another_with_more() -> None:
    elements = Elements(pa.int64())
    first = Distinct(elements, np.arange(100))
    second = first.with_all((200, 201))
    other = Distinct(elements, np.arange(100)).with_all((200,))
    assert continues(second, first)
    assert not continues(first, second)
    assert not continues(other, first)
    assert continues((1, 2, 3), (1, 2))
    assert not continues((2, 1, 3), (1, 2))
    assert continues(second, (0, 1, 2))

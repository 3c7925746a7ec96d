"""Laws of the assignment of key-groups to subtasks."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.errors import GraphError
from mainstay.state.keygroups import (
    MAX_MAX_PARALLELISM,
    KeyGroupRange,
    range_of,
    subtask_of,
    subtasks_of,
)

CHOSEN = [
    (1, 1),
    (16, 4),
    (12, 3),
    (128, 70),
    (13, 2),
    (32767, 13),
    (32767, 32767),
    (32768, 1),
    (32768, 32767),
    (32768, 32768),
]

ranges = st.builds(KeyGroupRange, st.integers(0, 40), st.integers(-1, 40))


def assert_tiles(max_parallelism: int, parallelism: int) -> None:
    """The ranges are contiguous, disjoint, cover everything, and agree with ``subtasks_of``."""
    owned = [range_of(i, parallelism, max_parallelism) for i in range(parallelism)]
    assert owned[0].first == 0
    assert owned[-1].last == max_parallelism - 1
    assert all(a.last + 1 == b.first for a, b in pairwise(owned))
    sizes = {len(r) for r in owned}
    assert max(sizes) - min(sizes) <= 1
    subtasks = subtasks_of(
        np.arange(max_parallelism, dtype=np.uint16), parallelism, max_parallelism
    )
    expected = np.repeat(np.arange(parallelism), [len(r) for r in owned])
    assert np.array_equal(subtasks, expected)


@pytest.mark.parametrize(("max_parallelism", "parallelism"), CHOSEN)
def test_the_ranges_of_the_subtasks_tile_the_groups(max_parallelism, parallelism):
    assert_tiles(max_parallelism, parallelism)


def test_the_ranges_tile_the_groups_for_a_thousand_random_pairs():
    draw = random.Random(20240117)
    for _ in range(1000):
        max_parallelism = draw.randint(1, MAX_MAX_PARALLELISM)
        assert_tiles(max_parallelism, draw.randint(1, min(max_parallelism, 300)))


@given(st.data())
def test_a_group_lies_in_the_range_of_its_subtask(data):
    max_parallelism = data.draw(st.integers(1, MAX_MAX_PARALLELISM))
    parallelism = data.draw(st.integers(1, max_parallelism))
    group = data.draw(st.integers(0, max_parallelism - 1))
    subtask = subtask_of(group, parallelism, max_parallelism)
    assert group in range_of(subtask, parallelism, max_parallelism)


@given(ranges, st.integers(-2, 42))
def test_a_range_contains_what_it_iterates_over(groups, group):
    assert (group in groups) == (group in list(groups))
    assert len(groups) == len(list(groups))
    assert np.uint16(3) in KeyGroupRange(0, 3)


def test_empty_ranges_are_equal_and_false():
    assert KeyGroupRange(7, 3) == KeyGroupRange.empty()
    assert not KeyGroupRange(7, 3)
    assert str(KeyGroupRange(7, 3)) == "none"
    assert str(KeyGroupRange(3, 7)) == "3..7"


def test_a_range_below_zero_is_refused():
    with pytest.raises(ValueError, match="-1"):
        KeyGroupRange(-1, 3)


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism"), [(0, 4), (-1, 4), (5, 4), (1, 0), (1, 32769)]
)
def test_impossible_parallelisms_are_refused(parallelism, max_parallelism):
    with pytest.raises(GraphError, match="must lie between 1 and"):
        range_of(0, parallelism, max_parallelism)
    with pytest.raises(GraphError, match="must lie between 1 and"):
        subtask_of(0, parallelism, max_parallelism)
    with pytest.raises(GraphError, match="must lie between 1 and"):
        subtasks_of(np.arange(3), parallelism, max_parallelism)


def test_a_parallelism_above_the_maximum_names_both():
    with pytest.raises(GraphError, match=r"parallelism is 200 .* is 128; lower the parallelism"):
        range_of(0, 200, 128)


@pytest.mark.parametrize("subtask", [-1, 4])
def test_a_subtask_that_does_not_exist_is_refused(subtask):
    with pytest.raises(GraphError, match=f"no subtask {subtask}"):
        range_of(subtask, 4, 16)


@pytest.mark.parametrize("group", [-1, 16])
def test_a_group_that_does_not_exist_is_refused(group):
    with pytest.raises(GraphError, match=f"no key-group {group}"):
        subtask_of(group, 4, 16)

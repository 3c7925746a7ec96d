"""What is due is given in the order of time, in parts that are large where there is much."""

from __future__ import annotations

import numpy as np

from mainstay.runtime.operators.due_times import DueTimes

WIDTH = 10
EVER = 1 << 62


def due_times(times: list[int]) -> DueTimes:
    made = DueTimes(WIDTH)
    made.set(np.arange(len(times)), np.array(times, np.int64))
    return made


def parts(made: DueTimes, until: int, rows: int = 1, span: int = EVER) -> list[list[int]]:
    return [times.tolist() for _, times in made.due(until, rows, span)]


def test_many_buckets_are_one_part_in_the_order_of_time() -> None:
    times = [95, 3, 41, 44, 7, 62]
    assert parts(due_times(times), 90, rows=100) == [[3, 7, 41, 44, 62]]


def test_a_part_ends_with_the_bucket_that_makes_it_large_enough() -> None:
    assert parts(due_times([1, 2, 15, 25, 35]), 100, rows=3) == [[1, 2, 15], [25, 35]]


def test_a_part_spans_no_more_time_than_it_may() -> None:
    assert parts(due_times([1, 8, 12, 13, 30]), 100, rows=100, span=12) == [[1, 8, 12], [13], [30]]


def test_what_is_not_due_stays() -> None:
    made = due_times([5, 8, 12])
    assert parts(made, 7) == [[5]]
    assert parts(made, 7) == []
    assert parts(made, 20, rows=100) == [[8, 12]]


def test_what_is_set_while_a_part_is_looked_at_is_given_in_its_turn() -> None:
    """As sessions are that fire once more when no late row is taken any longer."""
    made, found = due_times([1, 4, 30]), []
    for places, times in made.due(100, 100, 20):
        found.append(times.tolist())
        if times[0] == 1:
            made.set(places, times + 20)
    assert found == [[1, 4], [21, 24, 30]]


def test_what_has_moved_on_or_is_forgotten_is_not_due() -> None:
    made = due_times([5, 6, 7])
    made.set(np.array([0]), np.array([50]))
    made.forget(np.array([1]))
    assert parts(made, 20, rows=100) == [[7]]
    assert parts(made, 60, rows=100) == [[50]]

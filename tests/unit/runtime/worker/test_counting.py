from __future__ import annotations

import pytest

from mainstay.runtime.worker.counting import Effort, HeldBack


def test_effort_is_what_a_row_took_and_how_busy_a_task_was_since_it_was_last_asked() -> None:
    effort = Effort(10.0)
    effort.took(100, 0.2)
    effort.took(100, 0.2)
    assert effort.lately(10.5) == (pytest.approx(0.002), pytest.approx(0.8))
    assert effort.lately(11.0) == (pytest.approx(0.002), 0.0), "no row is no other rate"
    effort.took(10, 0.5)
    assert effort.lately(11.5) == (pytest.approx(0.05), 1.0)


def test_time_in_which_no_row_was_done_counts_for_the_next() -> None:
    effort = Effort(0.0)
    effort.took(-5, 0.1)
    effort.took(1, 0.1)
    assert effort.lately(1.0) == (pytest.approx(0.2), pytest.approx(0.2))


def test_all_effort_is_added_up_also_when_it_was_asked_for_meanwhile() -> None:
    effort = Effort(0.0)
    effort.took(1, 0.5)
    effort.lately(1.0)
    effort.took(1, 0.25)
    assert effort.total_s == 0.75


def test_time_held_back_lasts_from_the_first_look_without_room_to_the_first_with_it() -> None:
    held_back = HeldBack(10.0)
    held_back.note(11.0, is_held_back=False)
    assert held_back.so_far(12.0) == (2.0, 0.0)
    held_back.note(12.0, is_held_back=True)
    held_back.note(13.0, is_held_back=True)
    assert held_back.so_far(14.0) == (4.0, 2.0), "also while it lasts"
    held_back.note(15.0, is_held_back=False)
    held_back.note(20.0, is_held_back=True)
    assert held_back.so_far(21.0) == (11.0, 4.0)

from __future__ import annotations

import pytest

from mainstay.runtime.worker.counting import Effort


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

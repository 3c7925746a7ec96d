from __future__ import annotations

from mainstay.runtime.options import RestartOptions
from mainstay.runtime.restart import RestartStrategy


def strategy(
    max_failures: int = 10, window_s: float = 600.0, backoff_s: float = 1.0, most_s: float = 60.0
) -> RestartStrategy:
    return RestartStrategy(RestartOptions(max_failures, window_s, backoff_s, most_s))


def test_the_wait_doubles_with_each_failure_in_a_row() -> None:
    restart = strategy()
    assert [restart.on_failure(float(n)) for n in range(4)] == [1.0, 2.0, 4.0, 8.0]


def test_the_wait_never_exceeds_its_most() -> None:
    restart = strategy(max_failures=100, most_s=5.0)
    assert [restart.on_failure(0.0) for _ in range(60)][2:] == [4.0, *[5.0] * 57]


def test_progress_makes_the_wait_short_again() -> None:
    restart = strategy()
    restart.on_failure(0.0)
    restart.on_failure(1.0)
    restart.on_progress()
    assert restart.on_failure(2.0) == 1.0


def test_it_gives_up_on_one_failure_too_many() -> None:
    restart = strategy(max_failures=2)
    assert [restart.on_failure(0.0) for _ in range(3)] == [1.0, 2.0, None]


def test_progress_does_not_shorten_the_window() -> None:
    restart = strategy(max_failures=2)
    restart.on_failure(0.0)
    restart.on_progress()
    restart.on_failure(1.0)
    restart.on_progress()
    assert restart.on_failure(2.0) is None


def test_failures_leave_the_window_by_time() -> None:
    restart = strategy(max_failures=2, window_s=10.0)
    restart.on_failure(0.0)
    restart.on_failure(9.0)
    assert restart.on_failure(10.5) is not None
    assert restart.on_failure(18.0) is None


def test_without_any_allowed_failure_the_first_one_ends_the_job() -> None:
    assert strategy(max_failures=0).on_failure(0.0) is None

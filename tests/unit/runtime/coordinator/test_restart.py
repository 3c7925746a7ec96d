from __future__ import annotations

import pytest

from mainstay.errors import UserFunctionError
from mainstay.runtime.coordinator.restart import MISTAKES, RestartStrategy
from mainstay.runtime.options import RestartOptions


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


def raised(summary: str, line: int = 7) -> UserFunctionError:
    return UserFunctionError("counts", 0, summary, f"line {line}, in process")


@pytest.mark.parametrize("kind", MISTAKES)
def test_the_same_mistake_three_times_in_a_row_ends_the_job(kind: str) -> None:
    restart = strategy()
    waits = [restart.on_failure(float(n), raised(f"{kind}: of the code")) for n in range(3)]
    assert waits == [1.0, 2.0, None]
    assert restart.why_not_again == "the same line has raised the same error 3 times in a row"


@pytest.mark.parametrize("kind", ["ConnectionError", "ValueError", "KeyError", "OSError"])
def test_what_may_be_of_the_world_outside_is_tried_as_often_as_allowed(kind: str) -> None:
    restart = strategy(max_failures=5)
    waits = [restart.on_failure(0.0, raised(f"{kind}: no answer")) for _ in range(6)]
    assert None not in waits[:5]
    assert waits[5] is None
    assert "more than the 5 of its restart strategy" in restart.why_not_again


def test_mistakes_at_other_lines_are_others() -> None:
    restart = strategy()
    for n in range(6):
        assert restart.on_failure(0.0, raised("NameError: x", line=n % 2)) is not None


def test_a_mistake_after_progress_is_counted_anew() -> None:
    restart = strategy()
    for _ in range(2):
        restart.on_failure(0.0, raised("NameError: x"))
    restart.on_progress()
    assert restart.on_failure(0.0, raised("NameError: x")) == 1.0


def test_another_failure_in_between_begins_the_count_anew() -> None:
    restart = strategy()
    for error in [raised("NameError: x"), raised("NameError: x"), OSError("the disk"), None]:
        assert restart.on_failure(0.0, error) is not None
    assert restart.on_failure(0.0, raised("NameError: x")) is not None

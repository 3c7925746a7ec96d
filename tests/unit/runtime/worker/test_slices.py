from __future__ import annotations

from mainstay.runtime.worker.slices import SliceSize


def test_the_first_slice_is_as_large_as_it_is_told() -> None:
    assert SliceSize(0.003, first=64, most=1000).rows == 64


def test_quick_full_slices_grow_by_doubling_up_to_the_most() -> None:
    size = SliceSize(0.003, first=64, most=200)
    size.took(64, 0.001, 0.001)
    assert size.rows == 128
    size.took(128, 0.001, 0.001)
    assert size.rows == 200
    size.took(200, 0.0, 0.0)
    assert size.rows == 200


def test_a_slice_near_the_target_changes_nothing() -> None:
    size = SliceSize(0.004, first=64, most=1000)
    size.took(64, 0.002, 0.002)
    size.took(64, 0.004, 0.004)
    size.took(64, 0.008, 0.008)
    assert size.rows == 64


def test_one_slow_slice_shrinks_to_what_the_target_allows() -> None:
    size = SliceSize(0.003, first=64, most=1000)
    size.took(64, 0.064, 0.064)
    assert size.rows == 3


def test_a_slice_never_shrinks_below_one_row() -> None:
    size = SliceSize(0.003, first=64, most=1000)
    size.took(1, 5.0, 5.0)
    assert size.rows == 1


def test_a_nearly_empty_slice_says_nothing_about_full_ones() -> None:
    size = SliceSize(0.003, first=64, most=1000)
    size.took(2, 0.0, 0.0)
    assert size.rows == 64


def test_a_slow_slice_that_was_small_shrinks_all_the_same() -> None:
    size = SliceSize(0.003, first=64, most=1000)
    size.took(10, 0.030, 0.030)
    assert size.rows == 1


def test_a_function_that_is_slow_no_longer_gets_large_slices_again() -> None:
    size = SliceSize(0.003, first=64, most=64)
    size.took(64, 1.0, 1.0)
    assert size.rows == 1
    for _ in range(10):
        size.took(size.rows, 0.0, 0.0)
    assert size.rows == 64


def test_waiting_for_other_threads_does_not_make_slices_smaller() -> None:
    """Eight jobs in one process: every other slice waits until all the others had their turn."""
    size = SliceSize(0.003, first=64, most=2048)
    for number in range(1000):
        cpu_s = size.rows * 2e-6
        size.took(size.rows, cpu_s + (0.035 if number % 2 else 0.0), cpu_s)
    assert size.rows >= 1024


def test_a_function_that_waits_gets_small_slices_although_it_computes_nothing() -> None:
    size = SliceSize(0.003, first=64, most=2048)
    size.took(64, 0.64, 0.001)
    assert size.rows == 4
    size.took(4, 0.04, 0.0)
    assert size.rows == 4


def test_what_a_slice_costs_whatever_its_rows_makes_none_smaller() -> None:
    """A function of whole batches: ten milliseconds for each, and a microsecond for a row."""
    size = SliceSize(0.003, first=64, most=1024)
    for _ in range(20):
        cost_s = 0.010 + size.rows * 1e-6
        size.took(size.rows, cost_s, cost_s)
    assert size.rows == 1024


def test_a_row_that_is_slow_by_itself_is_no_cost_of_slices() -> None:
    size = SliceSize(0.003, first=64, most=1024)
    for _ in range(20):
        cost_s = size.rows * 0.005
        size.took(size.rows, cost_s, cost_s)
        assert size.rows <= 64
    assert size.rows <= 2


def test_a_cost_of_slices_that_is_gone_is_forgotten() -> None:
    size = SliceSize(0.003, first=64, most=1024)
    for _ in range(20):
        size.took(size.rows, 0.050, 0.050)
    for _ in range(20):
        cost_s = size.rows * 0.001
        size.took(size.rows, cost_s, cost_s)
    assert size.rows <= 6


def test_a_first_slice_that_was_slow_by_itself_is_got_over() -> None:
    """What is loaded at the first call, and then ten milliseconds for any batch."""
    size = SliceSize(0.003, first=64, most=1024)
    size.took(64, 1.0, 1.0)
    assert size.rows == 1
    for _ in range(100):
        size.took(size.rows, 0.010, 0.010)
    assert size.rows == 1024

"""A lease by its owner's clock: good, in doubt from half of its length on, over after all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.ha.tenure import Standing, Tenure

GOOD, IN_DOUBT, OVER = Standing.GOOD, Standing.IN_DOUBT, Standing.OVER


@pytest.mark.parametrize(
    ("now", "standing"),
    [(100.0, GOOD), (104.9, GOOD), (105.0, IN_DOUBT), (109.9, IN_DOUBT), (110.0, OVER)],
)
def test_a_lease_is_in_doubt_after_half_its_length_and_over_after_all_of_it(
    now: float, standing: Standing
) -> None:
    assert Tenure(10.0, 100.0).standing(now) is standing


def test_a_renewal_counts_from_when_it_was_begun() -> None:
    tenure = Tenure(10.0, 100.0)
    assert tenure.renewed(begun_at=101.0, now=108.0)
    assert tenure.standing(108.0) is IN_DOUBT
    assert tenure.standing(111.0) is OVER


def test_a_renewal_that_is_answered_too_late_does_not_bring_a_lease_back() -> None:
    tenure = Tenure(10.0, 100.0)
    assert not tenure.renewed(begun_at=109.0, now=110.0)
    assert tenure.standing(109.5) is OVER, "whatever the clock says later"


def test_a_lease_that_is_ended_is_over_at_once() -> None:
    tenure = Tenure(10.0, 100.0)
    tenure.end()
    assert tenure.standing(100.0) is OVER


times = st.floats(0, 1000, allow_nan=False)


@given(st.lists(st.tuples(times, times), max_size=20), times)
def test_a_lease_is_good_only_within_half_its_length_of_a_renewal(
    renewals: list[tuple[float, float]], asked: float
) -> None:
    tenure, begun = Tenure(10.0, 0.0), [0.0]
    for first, second in sorted(renewals):
        begun_at, now = min(first, second), max(first, second)
        if tenure.renewed(begun_at, now):
            begun.append(begun_at)
    if tenure.standing(asked) is GOOD:
        assert asked - max(begun) < 5.0

"""The rules by hand, and the whole file under crashes."""

from datetime import datetime, timedelta, timezone

import pytest

from examples.fraud.job import PAYMENT, build
from mainstay.testing import rows, run

NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def alerts_of(*payments):
    values = [("a", NOON + timedelta(seconds=at), amount, "shop") for at, amount in payments]
    result = run(build, {"payments": rows(PAYMENT, values)})
    return [rule for _, _, rule, _, _ in result.output("alerts")]


def test_a_large_payment_right_after_a_tiny_one_is_an_alert():
    assert alerts_of((0, 0.50), (30, 900.0)) == ["small then large"]


def test_a_large_payment_later_or_after_an_ordinary_one_is_none():
    assert alerts_of((0, 0.50), (61, 900.0)) == []
    assert alerts_of((0, 0.50), (10, 20.0), (20, 900.0)) == []


def test_the_sixth_payment_of_a_minute_is_an_alert():
    assert alerts_of(*[(n, 20.0) for n in range(6)]) == ["too many"]
    assert alerts_of(*[(20 * n, 20.0) for n in range(9)]) == []


@pytest.mark.parametrize("seed", range(5))
def test_crashes_and_a_rescale_change_nothing(seed):
    expected = sorted(run(build).output("alerts"))
    assert len(expected) == 4
    assert sorted(run(build, seed=seed, crashes=2, rescales=[3]).output("alerts")) == expected

"""The tests of the job: without files, without Spark, with crashes. Run them with pytest."""

import pytest

from examples.tested_job.job import PAYMENT, build
from mainstay.testing import rows, run


def payments(values, splits=1):
    return {"payments": rows(PAYMENT, values, splits=splits)}


def test_three_declined_payments_in_a_row_are_an_alert():
    result = run(build, payments([("a", 10, True), ("a", 20, True), ("a", 30, True)]))
    assert result.output("alerts") == [("a", 60)]


def test_a_payment_that_is_accepted_begins_a_new_row():
    declined, accepted = ("a", 10, True), ("a", 5, False)
    result = run(build, payments([declined, declined, accepted, declined]))
    assert result.output("alerts") == []
    assert result.state("declines", "in_a_row") == {"a": [10]}


MANY = [(f"card {n % 4}", n, n % 5 != 0) for n in range(400)]


def expected():
    """What a plain loop makes of them."""
    alerts, in_a_row = [], {}
    for card, amount, is_declined in MANY:
        row = in_a_row.setdefault(card, [])
        row.append(amount) if is_declined else row.clear()
        if len(row) == 3:
            alerts.append((card, sum(row)))
            row.clear()
    return sorted(alerts)


@pytest.mark.parametrize("seed", range(10))
def test_crashes_and_a_rescale_change_nothing(seed):
    result = run(build, payments(MANY), parallelism=2, seed=seed, crashes=2, rescales=[3])
    assert sorted(result.output("alerts")) == expected()


@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
@pytest.mark.parametrize("parallelism", [1, 4])
def test_neither_the_mode_nor_the_parallelism_matters(mode, parallelism):
    result = run(build, payments(MANY), parallelism=parallelism, mode=mode, seed=1, crashes=3)
    assert sorted(result.output("alerts")) == expected()

"""The orders of ``mainstay bench`` are those of the comparison with other systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstay.bench.orders import KEYS, orders, totals_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("first", "count"), [(0, 1000), (123_456_789, 7), (2**31, 1000)])
def test_orders_are_those_that_every_system_is_measured_with(
    first: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import workloads

    assert orders(first, count).equals(workloads.orders(first, count))
    assert workloads.KEYS == KEYS


def test_an_order_is_the_same_in_every_batch() -> None:
    assert orders(0, 100).slice(40, 20).equals(orders(40, 20))


def test_totals_are_those_of_a_plain_loop() -> None:
    batches = [orders(0, 5000), orders(5000, 300), orders(10_000, 5000)]
    expected: dict[int, int] = {}
    for batch in batches:
        for key, amount in zip(*batch.to_pydict().values(), strict=True):
            expected[key] = expected.get(key, 0) + amount
    assert totals_of(batches) == expected

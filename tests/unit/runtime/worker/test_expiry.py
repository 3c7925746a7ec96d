"""When states with a time to live are swept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mainstay.runtime.worker.expiry import LONGEST_REST_S, PAUSE_S, SLICE_ELEMENTS, Expiry
from mainstay.state.ttl_tables import Sweeper

HOUR_US = 3_600_000_000


class Elements:
    """A table of so many elements, which counts how many of them were looked at."""

    def __init__(self, lifetime_us: int, elements: int) -> None:
        self.lifetime_us = lifetime_us
        self.elements = elements
        self.seen = 0

    def sweep(self) -> Iterator[None]:
        for _ in range(self.elements):
            self.seen += 1
            yield


def expiry(*tables: Any) -> Expiry:
    return Expiry(Sweeper(tables))


def test_the_first_pass_waits_for_a_part_of_the_shortest_lifetime() -> None:
    table = Elements(HOUR_US, 10)
    subject = expiry(table, Elements(24 * HOUR_US, 10))
    subject.tick(100.0)
    assert subject.deadline() == 100.0 + 450.0
    subject.tick(549.0)
    assert table.seen == 0
    subject.tick(550.0)
    assert table.seen == 10
    assert subject.deadline() == 550.0 + 450.0


def test_a_pass_takes_as_many_slices_as_it_needs_with_a_pause_between_them() -> None:
    table = Elements(8_000_000, 2 * SLICE_ELEMENTS + 1)
    subject = expiry(table)
    subject.tick(0.0)
    now = 1.0
    for seen in (SLICE_ELEMENTS, 2 * SLICE_ELEMENTS):
        subject.tick(now)
        assert table.seen == seen
        now += PAUSE_S
        assert subject.deadline() == pytest.approx(now)
        # Called on every pass of the loop, it does nothing before its time.
        subject.tick(now - PAUSE_S / 2)
        assert table.seen == seen
    subject.tick(now)
    assert table.seen == 2 * SLICE_ELEMENTS + 1
    assert subject.deadline() == pytest.approx(now + 1.0)


@pytest.mark.parametrize(("lifetime_us", "rest_s"), [(1000, 1.0), (10**12, LONGEST_REST_S)])
def test_passes_come_neither_all_the_time_nor_hardly_ever(lifetime_us: int, rest_s: float) -> None:
    subject = expiry(Elements(lifetime_us, 1))
    subject.tick(0.0)
    assert subject.deadline() == rest_s


def test_a_pass_that_is_stopped_begins_anew() -> None:
    table = Elements(8_000_000, SLICE_ELEMENTS + 1)
    subject = expiry(table)
    subject.tick(0.0)
    subject.tick(1.0)
    subject.stop()
    subject.tick(2.0)
    assert table.seen == 2 * SLICE_ELEMENTS

"""How tests write times."""

from __future__ import annotations

from datetime import datetime, timezone

from tests.times import t, us


def test_a_text_is_a_time_of_the_day_and_a_number_its_seconds() -> None:
    expected = datetime(2026, 1, 1, 10, 0, 5, tzinfo=timezone.utc)
    assert t("10:00:05") == t(36_005) == expected
    assert t("10:00:05.25") == t(36_005.25)


def test_microseconds_are_those_since_1970() -> None:
    assert us("10:00:05") == 1_767_261_605_000_000
    assert us(0.000001) - us(0) == 1

"""Times as tests write them: of one day, in UTC."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone

DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)


def t(at: str | float) -> datetime:
    """``t("10:00:05")``, ``t("10:00")``, or seconds after ``t("00:00")``."""
    if isinstance(at, str):
        return datetime.combine(DAY.date(), time.fromisoformat(at), timezone.utc)
    return DAY + timedelta(seconds=at)


def us(at: str | float) -> int:
    """The same in microseconds since 1970."""
    return (t(at) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)

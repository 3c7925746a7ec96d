"""Durations as a job's author writes them."""

from __future__ import annotations

import math
import re

from mainstay.errors import GraphError
from mainstay.spelling import did_you_mean

_UNITS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}


def _meant(found: re.Match[str] | None) -> str:
    """The duration that was probably meant where the unit is misspelt."""
    if found is None:
        return ""
    number, unit = found.groups()
    return did_you_mean(f"{number} {unit}", [f"{number} {known}" for known in _UNITS])


def seconds(text: str | float, name: str, *, positive: bool = False) -> float:
    """Seconds of "500ms", "1s", "10 min", "7 days", or a number of seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        value = float(text)
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", str(text))
        unit = found.group(2).lower() if found else ""
        factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if found is None or factor is None:
            raise GraphError(
                f'{name}={text!r} is no duration. Write a number and a unit, as in "500ms", '
                f'"10s", "5 min" or "7 days".{_meant(found)}'
            )
        value = float(found.group(1)) * factor
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        least = "more than zero" if positive else "zero or more"
        raise GraphError(f"{name}={text!r} must be a duration of {least}.")
    return value

"""Quantities as a job's author writes them and as people read them: durations, sizes, counts."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

from mainstay.errors import GraphError
from mainstay.spelling import did_you_mean

_SECONDS = {
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
_LONGEST_S = 10_000_000 * 86400.0
"""Beyond all times. With a few times as much, sums of times would not fit their numbers."""
_OTHER_UNITS = dict.fromkeys(
    ("u", "usec", "micro", "microsecond"), 'a microsecond is "0.001ms", or a timedelta'
)
_OTHER_UNITS |= dict.fromkeys(("w", "week"), 'a week is "7 days"')
_OTHER_UNITS |= dict.fromkeys(
    ("mo", "month", "y", "year"),
    'months and years differ in length, so write days, as in "30 days"',
)
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SHOWN = ("B", "KiB", "MiB", "GiB", "TiB")
_NUMBER_AND_UNIT = r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*"


def seconds(text: str | float | timedelta, name: str, *, positive: bool = False) -> float:
    """Seconds of "500ms", "1s", "10 min", "7 days", a number of seconds, or a timedelta."""
    if isinstance(text, timedelta):
        value = text.total_seconds()
    elif isinstance(text, int | float) and not isinstance(text, bool):
        value = float(text)
    elif re.fullmatch(rf"\s*-{_NUMBER_AND_UNIT}", str(text)):
        value = -1.0
    else:
        found = re.fullmatch(_NUMBER_AND_UNIT, str(text))
        unit = found.group(2).lower() if found else ""
        factor = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
        if found is None or factor is None:
            raise GraphError(
                f'{name}={text!r} is no duration. Write a number and a unit, as in "500ms", '
                f'"10s", "5 min" or "7 days".{_meant_duration(found)}'
            )
        value = float(found.group(1)) * factor
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        least = "more than zero" if positive else "zero or more"
        raise GraphError(f"{name}={text!r} must be a duration of {least}.")
    if value > _LONGEST_S:
        raise GraphError(
            f"{name}={text!r} is too long: times end with the year 9999. Choose a duration of at "
            "most 10,000,000 days."
        )
    return value


def _meant_duration(found: re.Match[str] | None) -> str:
    """The duration that was probably meant where the unit is misspelt."""
    if found is None:
        return ""
    number, unit = found.groups()
    if unit.lower().removesuffix("s") in _OTHER_UNITS:
        return f" There is no unit {unit!r}: {_OTHER_UNITS[unit.lower().removesuffix('s')]}."
    return did_you_mean(f"{number} {unit}", [f"{number} {known}" for known in _SECONDS])


def size(text: str | int, name: str) -> int:
    """Bytes of "512MiB", "2 GB", or a number of bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]i?B)\s*", str(text))
    if found is None:
        raise GraphError(
            f'{name}={text!r} is no size. Write a number and a unit, as in "512MiB" or "2GiB".'
            f"{_meant_size(text)}"
        )
    return int(float(found.group(1)) * _BYTES[found.group(2)])


def _meant_size(text: Any) -> str:
    """The size that was probably meant where the unit is misspelt."""
    found = re.fullmatch(_NUMBER_AND_UNIT, str(text))
    if found is None:
        return ""
    number, unit = found.groups()
    near = unit if len(unit) > 1 else f"{unit}iB"
    return did_you_mean(f"{number}{near}", [f"{number}{known}" for known in _BYTES])


def whole_number(value: Any, name: str, *, least: int = 1, where: str = "") -> int:
    """A whole number that is not below the least allowed one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        place = f"{where}: " if where else ""
        raise GraphError(f"{place}{name}={value!r} must be a whole number of at least {least}.")
    return value


def shown_size(size_bytes: float) -> str:
    """A number of bytes for people."""
    power = 0
    while size_bytes >= 1024 and power < len(_SHOWN) - 1:
        size_bytes /= 1024
        power += 1
    return f"{size_bytes:,.1f} {_SHOWN[power]}" if power else f"{size_bytes:.0f} B"

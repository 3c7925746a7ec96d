"""Values of each type, with those at its ends and those that are easily taken for others."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from random import Random
from typing import Any

DDL = {
    "int": ("long", "long", "long", "int", "short", "byte"),
    "float": ("double", "double", "float"),
    "bool": ("boolean",),
    "str": ("string",),
    "bytes": ("binary",),
    "date": ("date",),
    "time": ("timestamp_ntz",),
    "zoned": ("timestamp",),
}
"""The kinds of values, and how columns and states of them are declared."""

_MOST = {"long": 1 << 63, "int": 1 << 31, "short": 1 << 15, "byte": 1 << 7}
_WHOLE = (0, 1, -1, 2, 3, 7, 10, -5, 100, 127, -128)
_LARGE = (
    (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 62), (1 << 63) - 1, -(1 << 63), -(1 << 53) - 1,
    (1 << 31) - 1, -(1 << 31), (1 << 24) + 1, 3037000500,
)  # fmt: skip
_FLOATS = (0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, 0.1, 1e3, -7.25)
_ODD_FLOATS = (
    -0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 1e-200, 2.0**53, 2.0**53 + 2,
    2.0**63, -(2.0**63), 16777217.0, 3.4028235677973366e38, 1e39, 9.2233720368547748e18,
)  # fmt: skip
_TEXTS = ("", "a", "b", "ab", "A", "ä", "日本", "a\0b", "none", "0")
_BYTES = (b"", b"a", b"b", b"\0", b"\xff\x00")
_UTC = timezone.utc


def values(kind: str, ddl: str, random: Random, *, tame: bool) -> Any:
    """A value of a kind, in the bounds of a type."""
    odd = not tame and random.random() < 0.3
    match kind:
        case "int":
            most = _MOST[ddl]
            pool = (*_LARGE, most - 1, -most) if odd else _WHOLE
            value = random.choice(pool)
            return value if -most <= value < most else value % most
        case "float":
            return random.choice(_ODD_FLOATS if odd else _FLOATS)
        case "bool":
            return random.random() < 0.5
        case "str":
            return random.choice(_TEXTS)
        case "bytes":
            return random.choice(_BYTES)
        case "date":
            ends = (date(1, 1, 1), date(9999, 12, 31), date(1, 1, 2))
            return random.choice(ends) if odd else date(1960, 2, 28) + timedelta(random.choice(
                (0, 1, 2, 3652, 15000, 14610)
            ))  # fmt: skip
        case _:
            ends = (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
            plain = random.choice(ends) if odd else datetime(1969, 12, 31) + timedelta(
                seconds=random.choice((0, 1, 86399, 86400, 10**9)),
                microseconds=random.choice((0, 0, 1, 999999)),
            )  # fmt: skip
            return plain if kind == "time" else plain.replace(tzinfo=_UTC)

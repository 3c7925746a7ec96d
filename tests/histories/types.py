"""Types of state at random, as literals: their values, and what they may become.

A type is a text as ``"long"``, or a tuple: ``("array", T)``, ``("map", K, V)`` and
``("struct", (("a", T), ...))``.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

Type = Any
INTEGERS = ("byte", "short", "int", "long")
WIDER = {
    "byte": "short",
    "short": "int",
    "int": "long",
    "float": "double",
    "decimal(6,2)": "decimal(9,3)",
    "decimal(9,3)": "decimal(38,10)",
}
SCALES = {"decimal(6,2)": 2, "decimal(9,3)": 3, "decimal(38,10)": 10}
NARROWER = {wide: narrow for narrow, wide in WIDER.items()}
VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "byte": (-128, 0, 1, 127),
    "short": (-32768, 0, 5, 32767),
    "int": (-(1 << 31), 0, 7, (1 << 31) - 1),
    "long": (-(1 << 63), -1, 0, 9, (1 << 63) - 1),
    "float": (0.5, -0.0, math.inf, math.nan, -2.25),
    "double": (0.1, -0.0, 0.0, -math.inf, math.nan, 5e-324),
    "decimal(6,2)": (Decimal("0.00"), Decimal("-9999.99"), Decimal("1.50")),
    "decimal(9,3)": (Decimal("0.125"), Decimal("-999999.999")),
    "decimal(38,10)": (Decimal("0.0000000001"), Decimal("999999999999999999999999999.0000000000")),
    "string": ("", "a", "bc", "Gr\u00fc\u00dfe", "\x00 inside", "even"),
    "binary": (b"", b"\x00\xff", b"ab"),
    "date": (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)),
    "timestamp": (
        datetime(1, 1, 1, tzinfo=timezone.utc),
        datetime(2024, 2, 29, 12, 30, 1, 999_999, tzinfo=timezone.utc),
    ),
    "timestamp_ntz": (datetime(1, 1, 1), datetime(2024, 2, 29, 12, 30, 1, 1)),
}
MAP_KEYS = ("string", "int", "long", "date", ("struct", (("p", "int"), ("q", "string"))))


def drawn_type(random: Random, depth: int = 0) -> Type:
    """Any type; the deeper, the simpler."""
    if random.random() < 0.45 + 0.3 * depth:
        return random.choice(sorted(VALUES))
    match random.choice(["array", "map", "struct", "struct"]):
        case "array":
            return ("array", drawn_type(random, depth + 1))
        case "map":
            key = random.choice(["string", "int", "date"])
            return ("map", key, drawn_type(random, depth + 1))
    names = random.sample("abcd", random.randint(1, 3))
    return ("struct", tuple((name, drawn_type(random, depth + 1)) for name in names))


def ddl(type: Type) -> str:
    if isinstance(type, str):
        return type
    match type:
        case ("array", element):
            return f"array<{ddl(element)}>"
        case ("map", key, value):
            return f"map<{ddl(key)},{ddl(value)}>"
    fields = ",".join(f"{name}:{ddl(of)}" for name, of in type[1])
    return f"struct<{fields}>"


def drawn_value(random: Random, type: Type, *, may_be_null: bool = False) -> Any:
    if may_be_null and random.random() < 0.15:
        return None
    if isinstance(type, str):
        return random.choice(VALUES[type])
    match type:
        case ("array", element):
            count = random.randint(0, 3)
            return [drawn_value(random, element, may_be_null=True) for _ in range(count)]
        case ("map", key, value):
            count = random.randint(0, 2)
            return {
                drawn_value(random, key): drawn_value(random, value, may_be_null=True)
                for _ in range(count)
            }
    return tuple(drawn_value(random, of, may_be_null=True) for _, of in type[1])


# ---------------------------------------------------------------- what a type may become


def evolved(random: Random, type: Type) -> Type:
    """A type that values of this one become by themselves: wider, or with more fields."""
    if isinstance(type, str):
        return WIDER.get(type, type)
    match type:
        case ("array", element):
            return ("array", evolved(random, element))
        case ("map", key, value):
            return ("map", WIDER.get(key, key), evolved(random, value))
    fields = [(name, evolved(random, of)) for name, of in type[1]]
    names = {name for name, _ in fields}
    more = [name for name in "abcdefgh" if name not in names]
    if more and random.random() < 0.5:
        fields.append((more[0], drawn_type(random, 2)))
    random.shuffle(fields)
    return ("struct", tuple(fields))


def without_a_field(type: Type) -> tuple[Type, str] | None:
    """The type without its first field, and the path of that; None where it has only one."""
    match type:
        case ("struct", fields) if len(fields) > 1:
            return ("struct", fields[1:]), fields[0][0]
        case ("array", element) if found := without_a_field(element):
            return ("array", found[0]), f"element.{found[1]}"
        case ("map", key, value) if found := without_a_field(value):
            return ("map", key, found[0]), f"value.{found[1]}"
    return None


def converted(value: Any, before: Type, after: Type) -> Any:
    """What a value is after its type has become another one."""
    if value is None or before == after:
        return value
    if isinstance(after, str):
        if after in SCALES:
            return value.quantize(Decimal(1).scaleb(-SCALES[after]))
        return value
    match after:
        case ("array", element):
            return [converted(each, before[1], element) for each in value]
        case ("map", key, of):
            return {
                converted(name, before[1], key): converted(each, before[2], of)
                for name, each in value.items()
            }
    old = {name: (each, of) for (name, of), each in zip(before[1], value, strict=True)}
    return tuple(converted(*old[name], of) if name in old else None for name, of in after[1])


# ---------------------------------------------------------------- comparing


def shown(value: Any) -> Any:
    """A value as a text that tells -0.0 from 0.0 and takes NaN for NaN; rows are tuples."""
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        entries = sorted(f"{shown(key)}: {shown(each)}" for key, each in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, datetime) and value.tzinfo is not None:
        return repr(value.astimezone(timezone(timedelta(0))).replace(tzinfo=None)) + "Z"
    if isinstance(value, bytes | bytearray | memoryview):
        return repr(bytes(value))
    return repr(value)

"""Arithmetic and comparisons: what Python's operators do with each kind of value."""

from __future__ import annotations

import ast

from mainstay.plan.compiling.conversions import (
    Codes,
    as_code,
    as_float,
    as_int,
    converted,
    there,
)
from mainstay.plan.compiling.types import BOOL, DATE, DELTA, FLOAT, INT, NUMBER, Type, coded
from mainstay.plan.compiling.values import FALSE, Value
from mainstay.plan.compiling.writer import Writer

_INT = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
_BITS = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_FLOAT = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_FLOAT_CALLS = {ast.Div: "fdiv", ast.FloorDiv: "ffloordiv", ast.Mod: "ffmod", ast.Pow: "fpower"}
_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_NUMBERS = ("int", "float", "number", "bool")


class NoSuchOperationError(Exception):
    """Python has no such operation, or a kernel has none."""


def binary(write: Writer, op: ast.operator, left: Value, right: Value) -> Value:
    """The value of an operator with two sides. None traps."""
    left, right = there(write, left), there(write, right)
    kinds = left.type.kind, right.type.kind
    if kinds[0] in _NUMBERS and kinds[1] in _NUMBERS:
        return _numbers(write, op, left, right)
    return _times(write, op, left, right)


def _numbers(write: Writer, op: ast.operator, left: Value, right: Value) -> Value:
    if left.type == right.type == BOOL and type(op) in _BITS:
        return Value(BOOL, (write.temp(f"({left.code} {_BITS[type(op)]} {right.code})"),))
    left, right = as_int(write, left), as_int(write, right)
    if left.type == right.type == INT:
        return _whole(write, op, left, right)
    is_open = "number" in (left.type.kind, right.type.kind)
    if is_open and "float" not in (left.type.kind, right.type.kind):
        return _either(write, op, left, right)
    return _floats(write, op, left, right)


def _whole(write: Writer, op: ast.operator, left: Value, right: Value) -> Value:
    if type(op) in _INT:
        return Value(INT, (write.temp(f"{_INT[type(op)]}({left.code}, {right.code})"),))
    if type(op) in _BITS:
        return Value(INT, (write.temp(f"({left.code} {_BITS[type(op)]} {right.code})"),))
    if isinstance(op, ast.Div):
        return Value(FLOAT, (write.temp(f"truediv({left.code}, {right.code})"),))
    if isinstance(op, ast.Pow) and isinstance(right.literal, int) and right.literal >= 0:
        return Value(INT, (write.temp(f"power({left.code}, {right.code})"),))
    raise NoSuchOperationError


def _floats(write: Writer, op: ast.operator, left: Value, right: Value) -> Value:
    one, other = as_float(write, left).code, as_float(write, right).code
    if type(op) in _FLOAT:
        return Value(FLOAT, (write.temp(f"{one} {_FLOAT[type(op)]} {other}"),))
    if type(op) in _FLOAT_CALLS:
        return Value(FLOAT, (write.temp(f"{_FLOAT_CALLS[type(op)]}({one}, {other})"),))
    raise NoSuchOperationError


def _either(write: Writer, op: ast.operator, left: Value, right: Value) -> Value:
    """Of numbers that may be whole: what comes of two whole ones is whole, but for a quotient."""
    one, other = _as_number(write, left), _as_number(write, right)
    (a, a_whole), (b, b_whole) = one.parts, other.parts
    both = write.temp(f"({a_whole} and {b_whole})")
    if type(op) in _FLOAT:
        code = f"number({a} {_FLOAT[type(op)]} {b}, {both})"
    elif isinstance(op, ast.FloorDiv | ast.Mod):
        code = f"number({_FLOAT_CALLS[type(op)]}({a}, {b}), {both})"
    elif isinstance(op, ast.Div):
        return Value(FLOAT, (write.temp(f"fdiv({a}, {b})"),))
    elif isinstance(op, ast.Pow):
        write.trap_unless(f"(not {a_whole})")
        return Value(FLOAT, (write.temp(f"fpower({a}, {b})"),))
    else:
        raise NoSuchOperationError
    return Value(NUMBER, (write.temp(code), both))


def _as_number(write: Writer, value: Value) -> Value:
    return converted(write, Codes(), value, NUMBER)


def _times(write: Writer, op: ast.operator, left: Value, right: Value) -> Value:
    a, b = left.type.kind, right.type.kind
    is_sum, is_difference = isinstance(op, ast.Add), isinstance(op, ast.Sub)
    if is_difference and a == b and a in ("time", "zoned"):
        return Value(DELTA, (write.temp(f"sub({left.code}, {right.code})"),))
    if is_difference and a == b == "date":
        return Value(DELTA, (write.temp(f"mul(sub({left.code}, {right.code}), DAY_US)"),))
    if is_sum and a == "delta" and b in ("time", "zoned", "date"):
        return _times(write, op, right, left)
    if b == "delta" and (is_sum or is_difference):
        how = "add" if is_sum else "sub"
        if a in ("time", "zoned"):
            return Value(left.type, (write.temp(f"at({how}({left.code}, {right.code}))"),))
        if a == "date":
            days = f"floordiv({right.code}, DAY_US)"
            return Value(DATE, (write.temp(f"day({how}({left.code}, {days}))"),))
        if a == "delta":
            return Value(DELTA, (write.temp(f"span({how}({left.code}, {right.code}))"),))
    if isinstance(op, ast.Mult) and {a, b} == {"delta", "int"}:
        return Value(DELTA, (write.temp(f"span(mul({left.code}, {right.code}))"),))
    if a == b == "delta" and isinstance(op, ast.Div):
        return Value(FLOAT, (write.temp(f"truediv({left.code}, {right.code})"),))
    if a == b == "delta" and isinstance(op, ast.FloorDiv):
        return Value(INT, (write.temp(f"floordiv({left.code}, {right.code})"),))
    raise NoSuchOperationError


def unary(write: Writer, op: ast.unaryop, value: Value) -> Value:
    """Minus, plus and the complement. None traps."""
    value = as_int(write, there(write, value))
    kind = value.type.kind
    if isinstance(op, ast.UAdd) and kind in _NUMBERS:
        return value
    if isinstance(op, ast.Invert) and kind == "int":
        return Value(INT, (write.temp(f"~{value.code}"),))
    if isinstance(op, ast.USub):
        if kind == "int":
            if isinstance(value.literal, int):
                return Value(INT, (f"({-value.literal})",), -value.literal)
            return Value(INT, (write.temp(f"neg({value.code})"),))
        if kind == "float":
            literal = -value.literal if isinstance(value.literal, float) else None
            return Value(FLOAT, (write.temp(f"-{value.code}"),), literal)
        if kind == "number":
            negative = f"number(-{value.parts[0]}, {value.parts[1]})"
            return Value(NUMBER, (write.temp(negative), value.parts[1]))
        if kind == "delta":
            return Value(DELTA, (write.temp(f"span(neg({value.code}))"),))
    raise NoSuchOperationError


# ---------------------------------------------------------------- comparisons


def compared(write: Writer, codes: Codes, op: ast.cmpop, left: Value, right: Value) -> str:
    """What a comparison gives, as a name. To put None in order traps, as it is an error."""
    if isinstance(op, ast.Eq):
        return equal(write, codes, left, right)
    if isinstance(op, ast.NotEq):
        return write.temp(f"not {equal(write, codes, left, right)}")
    left, right = there(write, left), there(write, right)
    return write.temp(_ordered(write, _ORDER[type(op)], left, right))


def _ordered(write: Writer, sign: str, left: Value, right: Value) -> str:
    a, b = left.type.kind, right.type.kind
    if a in _NUMBERS and b in _NUMBERS:
        one, other = _comparable(write, left, right)
        return f"{one} {sign} {other}"
    if a == b and a in ("date", "time", "zoned", "delta"):
        return f"{left.code} {sign} {right.code}"
    raise NoSuchOperationError


def _comparable(write: Writer, left: Value, right: Value) -> tuple[str, str]:
    """Two numbers of one kind. A whole number beside a float is compared exactly, or traps."""
    left, right = as_int(write, left), as_int(write, right)
    if left.type == right.type == INT:
        return left.code, right.code
    return _exact(write, left), _exact(write, right)


def _exact(write: Writer, value: Value) -> str:
    return write.temp(f"exact({value.code})") if value.type.kind == "int" else value.parts[0]


def equal(write: Writer, codes: Codes, left: Value, right: Value) -> str:
    """Whether two values are equal. None equals None alone."""
    if "none" in (left.type.kind, right.type.kind):
        both_none = left.type.kind == right.type.kind
        other = right if left.type.kind == "none" else left
        if both_none:
            return "True"
        return "False" if other.ok is None else write.temp(f"not {other.ok}")
    result = write.name()
    oks = [value.ok for value in (left, right) if value.ok is not None]
    if not oks:
        write(f"{result} = {_equal_plain(write, codes, left, right)}")
        return result
    write(f"{result} = {f'{oks[0]} == {oks[1]}' if len(oks) == 2 else 'False'}")
    write(f"if {' and '.join(oks)}:")
    with write.block():
        write(f"{result} = {_equal_plain(write, codes, left.plain, right.plain)}")
    return result


def _equal_plain(write: Writer, codes: Codes, left: Value, right: Value) -> str:
    a, b = left.type.kind, right.type.kind
    if a in _NUMBERS and b in _NUMBERS:
        if a == b == "bool":
            return f"{left.code} == {right.code}"
        one, other = _comparable(write, left, right)
        return f"{one} == {other}"
    if coded(left.type) is not None and coded(left.type) == coded(right.type):
        return f"{as_code(write, codes, left).code} == {as_code(write, codes, right).code}"
    if a == b and a in ("date", "time", "zoned", "delta"):
        return f"{left.code} == {right.code}"
    if a == b == "tuple":
        if len(left.type.items) != len(right.type.items):
            return "False"
        pairs = zip(left.items(), right.items(), strict=True)
        return " and ".join([equal(write, codes, *pair) for pair in pairs]) or "True"
    if "column" in (a, b) or "row" in (a, b):
        raise NoSuchOperationError
    # Values of two kinds are never equal.
    return FALSE.code


def is_date_and_time(left: Type, right: Type) -> bool:
    """Whether a date is compared with a datetime, which are told apart by no number."""
    return {left.kind, right.kind} >= {"date"} and bool({left.kind, right.kind} & {"time", "zoned"})

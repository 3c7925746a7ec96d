"""Calls: of built-in functions, of ``math``, of states, and of functions of the author's own."""

from __future__ import annotations

import ast
import inspect
import math
import operator
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from types import BuiltinFunctionType
from typing import Any

from mainstay.plan.compiling import expressions, inlining, states
from mainstay.plan.compiling.conversions import (
    as_float,
    as_int,
    snapshot,
    there,
)
from mainstay.plan.compiling.frame import Frame
from mainstay.plan.compiling.operations import NoSuchOperationError, compared
from mainstay.plan.compiling.refusal import WITHOUT
from mainstay.plan.compiling.types import BOOL, FLOAT, INT, NUMBER
from mainstay.plan.compiling.values import NOTHING, Thing, Value
from mainstay.runtime.compiled.program import NOW

_OF_DAYS = {
    "year": "civil({0})[0]",
    "month": "civil({0})[1]",
    "day": "civil({0})[2]",
}
_OF_TIME = {
    **{name: code.replace("{0}", "({0} // DAY_US)") for name, code in _OF_DAYS.items()},
    "hour": "{0} % DAY_US // 3600000000",
    "minute": "{0} // 60000000 % 60",
    "second": "{0} // 1000000 % 60",
    "microsecond": "{0} % 1000000",
}
PARTS_OF_TIME = {
    "date": _OF_DAYS,
    "time": _OF_TIME,
    "zoned": _OF_TIME,
    "delta": {
        "days": "{0} // DAY_US",
        "seconds": "{0} % DAY_US // 1000000",
        "microseconds": "{0} % 1000000",
    },
}
_OF_MATH: dict[Any, str] = {
    math.sqrt: "m_sqrt",
    math.exp: "m_exp",
    math.log2: "m_log2",
    math.log10: "m_log10",
    math.sin: "m_sin",
    math.cos: "m_cos",
    math.tan: "m_tan",
    math.atan: "m_atan",
    math.tanh: "m_tanh",
    math.atan2: "m_atan2",
    math.fmod: "m_fmod",
    math.pow: "fpower",
    math.fabs: "math.fabs",
    math.copysign: "math.copysign",
}
_TO_WHOLE: dict[Any, str] = {math.floor: "floor", math.ceil: "ceil", math.trunc: "truncated"}
_TO_BOOL: dict[Any, str] = {
    math.isnan: "math.isnan",
    math.isinf: "math.isinf",
    math.isfinite: "math.isfinite",
}
_OPERATORS: dict[Any, type[ast.operator]] = {
    operator.add: ast.Add,
    operator.sub: ast.Sub,
    operator.mul: ast.Mult,
    operator.truediv: ast.Div,
    operator.floordiv: ast.FloorDiv,
    operator.mod: ast.Mod,
    operator.or_: ast.BitOr,
    operator.and_: ast.BitAnd,
    operator.xor: ast.BitXor,
}


def called(frame: Frame, node: ast.Call) -> Value:
    """What a call gives."""
    if isinstance(node.func, ast.Attribute):
        owner = expressions.evaluated(frame, node.func.value)
        if isinstance(owner, Thing) and owner.kind == "state":
            return states.called(frame, node, owner, node.func.attr)
        if isinstance(owner, Value):
            return _method_of_value(frame, node, owner, node.func.attr)
        if isinstance(owner, Thing) and owner.kind == "ctx":
            return _context_method(frame, node, node.func.attr)
    found = expressions.evaluated(frame, node.func)
    if isinstance(found, Value):
        frame.refuse(node, f"{ast.unparse(node.func)!r} is {found.type}, and is called")
    assert isinstance(found, Thing)
    own = inlining.own_function(frame, node, found)
    if own is None:
        return _builtin(frame, node, found.object)
    return inlining.inlined(frame, node, own)


def generated(frame: Frame, node: ast.Call) -> bool:
    """Emit the rows of a generator of the author's own; False where it is no such call."""
    if isinstance(node.func, ast.Attribute):
        owner = expressions.evaluated(frame, node.func.value)
        if isinstance(owner, Value) or owner.kind in ("state", "ctx"):
            return False
    found = expressions.evaluated(frame, node.func)
    own = None if isinstance(found, Value) else inlining.own_function(frame, node, found)
    if own is None or not inspect.isgeneratorfunction(own.function):
        return False
    inlining.generated(frame, node, own)
    return True


def _context_method(frame: Frame, node: ast.Call, name: str) -> Value:
    if name == "now" and not node.args and not node.keywords:
        return frame.kernel.asked(NOW, "zoned")
    frame.refuse(node, f"ctx.{name}() has no compiled form", WITHOUT)


# ---------------------------------------------------------------- functions of Python


def _builtin(frame: Frame, node: ast.Call, function: Any) -> Value:
    if isinstance(function, type) and function in (timedelta, datetime, date):
        return _literal_time(frame, node, function)
    if node.keywords:
        frame.refuse(
            node, f"{ast.unparse(node.func)}() has no compiled form with names of arguments"
        )
    values = [snapshot(frame.write, expressions.value_of(frame, each)) for each in node.args]
    try:
        return _called_with(frame, node, function, values)
    except (NoSuchOperationError, IndexError, TypeError):
        told = ", ".join(str(value.type) for value in values)
        frame.refuse(
            node,
            f"{ast.unparse(node.func)}() of {told or 'nothing'} has no compiled form",
            "Compiled code has abs, bool, float, int, max, min, round to a whole number, most of "
            f"math, and functions of your own that are written in Python. {WITHOUT}",
        )


def _called_with(frame: Frame, node: ast.Call, function: Any, values: list[Value]) -> Value:
    write = frame.write
    if not isinstance(function, BuiltinFunctionType | type):
        raise NoSuchOperationError
    if function in (min, max):
        return _extreme(frame, node, values, ast.Lt() if function is min else ast.Gt())
    if function is bool and len(values) == 1:
        return Value(BOOL, (write.temp(expressions.truth_of(frame, node, values[0])),))
    if function in _OPERATORS and len(values) == 2:
        return expressions.operated(frame, node, _OPERATORS[function](), *values)
    values = [there(write, value) for value in values]
    if not all(value.type.is_number for value in values):
        raise NoSuchOperationError
    if len(values) == 1 and (one := _of_one(frame, function, values[0])) is not None:
        return one
    if function is math.log:
        return _log(frame, values)
    if function in _OF_MATH:
        expected = 2 if function in (math.atan2, math.fmod, math.pow, math.copysign) else 1
        if len(values) != expected:
            raise NoSuchOperationError
        told = ", ".join(as_float(write, value).code for value in values)
        return Value(FLOAT, (write.temp(f"{_OF_MATH[function]}({told})"),))
    raise NoSuchOperationError


def _of_one(frame: Frame, function: Any, value: Value) -> Value | None:
    """Functions of one number."""
    write = frame.write
    if function is abs:
        return _absolute(frame, value)
    if function is float:
        return as_float(write, value)
    if function in _TO_BOOL:
        return Value(BOOL, (write.temp(f"{_TO_BOOL[function]}({as_float(write, value).code})"),))
    if function not in (int, round, *_TO_WHOLE):
        return None
    how = {int: "truncated", round: "rounded"}.get(function) or _TO_WHOLE[function]
    value = as_int(write, value)
    if value.type.kind == "int":
        return value
    if value.type.kind == "number":
        # A whole one is exact as a float, and stays what it is.
        return Value(INT, (write.temp(f"{how}({value.parts[0]})"),))
    return Value(INT, (write.temp(f"{how}({value.code})"),))


def _absolute(frame: Frame, value: Value) -> Value:
    write = frame.write
    value = as_int(write, value)
    if value.type.kind == "int":
        return Value(INT, (write.temp(f"absolute({value.code})"),))
    if value.type.kind == "number":
        return Value(NUMBER, (write.temp(f"math.fabs({value.parts[0]})"), value.parts[1]))
    return Value(FLOAT, (write.temp(f"math.fabs({value.code})"),))


def _log(frame: Frame, values: list[Value]) -> Value:
    write = frame.write
    # Of a whole number the logarithm is taken as it is, which may be of more than 53 bits.
    logs = []
    for value in values:
        whole = as_int(write, value)
        code = f"exact({whole.code})" if whole.type.kind == "int" else as_float(write, whole).code
        logs.append(write.temp(f"m_log({code})"))
    if len(logs) == 1:
        return Value(FLOAT, (logs[0],))
    one, base = logs
    return Value(FLOAT, (write.temp(f"fdiv({one}, {base})"),))


def _extreme(frame: Frame, node: ast.Call, values: list[Value], op: ast.cmpop) -> Value:
    """The first of the least, or of the greatest."""
    if len(values) < 2:
        frame.refuse(
            node, "the least or greatest of a collection has no compiled form", "Name the values."
        )
    best = values[0]
    for value in values[1:]:
        told = compared(frame.write, frame.kernel, op, value, best)
        candidate, old = there(frame.write, value), there(frame.write, best)
        best = expressions.chosen(frame, node, told, _itself(candidate), _itself(old))
    return best


def _itself(value: Value) -> Callable[[], Value]:
    return lambda: value


def _literal_time(frame: Frame, node: ast.Call, function: Any) -> Value:
    """A time or a duration that is written down."""
    try:
        positional = [ast.literal_eval(each) for each in node.args]
        named = {
            str(each.arg): _utc(frame, each.value)
            if each.arg == "tzinfo"
            else ast.literal_eval(each.value)
            for each in node.keywords
        }
        value = frame.kernel.literal(function(*positional, **named))
    except (ValueError, TypeError, OverflowError, SyntaxError):
        value = None
    if value is None:
        frame.refuse(
            node,
            f"{ast.unparse(node)} is no literal",
            "Write its arguments as numbers, or make it outside of the function and use its name.",
        )
    assert value is not None
    return value


def _utc(frame: Frame, node: ast.expr) -> Any:
    """The time zone that is named, if it is the one of all times of rows."""
    found = expressions.evaluated(frame, node)
    if not isinstance(found, Thing) or found.object is not timezone.utc:
        raise ValueError("another time zone")
    return timezone.utc


def _method_of_value(frame: Frame, node: ast.Call, owner: Value, name: str) -> Value:
    """Methods of times and durations."""
    kind = owner.type.kind
    if kind == "none":
        frame.write("raise Trap")
        return NOTHING
    if not node.args and not node.keywords:
        write = frame.write
        if kind == "delta" and name == "total_seconds":
            return Value(FLOAT, (write.temp(f"total_seconds({there(write, owner).code})"),))
        if kind in ("date", "time", "zoned") and name in ("weekday", "isoweekday"):
            code = there(write, owner).code
            days = code if kind == "date" else f"{code} // DAY_US"
            monday = 0 if name == "weekday" else 1
            return Value(INT, (write.temp(f"({days} + 3) % 7 + {monday}"),))
    frame.refuse(
        node,
        f"{name}() of {owner.type} has no compiled form",
        "Compute it before, on whole batches: with_columns(...) of the stream. Or leave out "
        "compiled=True.",
    )

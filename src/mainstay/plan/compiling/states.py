"""States in compiled code: variables of a row, which are read before it and written behind it."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

import pyarrow as pa

from mainstay.plan.compiling import calls, expressions, inlining
from mainstay.plan.compiling.conversions import converted, loaded, snapshot, there
from mainstay.plan.compiling.fitting import WrongFormError, fitted
from mainstay.plan.compiling.frame import Frame
from mainstay.plan.compiling.operations import NoSuchOperationError
from mainstay.plan.compiling.refusal import WITHOUT
from mainstay.plan.compiling.types import Type
from mainstay.plan.compiling.values import NOTHING, Thing, Value
from mainstay.runtime.compiled.program import Path
from mainstay.schema import format_type
from mainstay.state.info import StateInfo
from mainstay.state.kinds import AGGREGATING

_METHODS = {
    "value": ("get", "update", "clear"),
    "reducing": ("get", "add", "clear"),
    "aggregating": ("get", "add", "clear"),
    "timer": ("get", "set", "clear"),
}


def called(frame: Frame, node: ast.Call, owner: Thing, method: str) -> Value:
    """A call of a method of a state."""
    info = owner.state
    assert info is not None
    number = frame.kernel.infos.index(info)
    expected = {"get": 0, "clear": 0}.get(method, 1)
    if method not in _METHODS[info.kind.name]:
        frame.refuse(
            node,
            f"{method}() of the state {info.name!r} has no compiled form",
            f"Compiled code has {', '.join(_METHODS[info.kind.name])} of it. {WITHOUT}",
        )
    if len(node.args) != expected or node.keywords:
        told = "no argument" if not expected else "one argument"
        frame.refuse(node, f"{info.name}.{method}() takes {told}", "Correct the arguments.")
    match method:
        case "get":
            return _got(frame, node, number, info)
        case "clear":
            _cleared(frame, number)
        case "set":
            _set(frame, node, number, row_like(frame, node.args[0]))
        case "update":
            _updated(frame, node, number, row_like(frame, node.args[0]))
        case "add" if info.kind.name == AGGREGATING.name:
            _aggregated(frame, node, number, info, row_like(frame, node.args[0]))
        case _:
            _reduced(frame, node, number, info, row_like(frame, node.args[0]))
    return NOTHING


def row_like(frame: Frame, node: ast.expr) -> Value:
    """A value that may be written as a dict with the names of its fields."""
    if not isinstance(node, ast.Dict):
        return snapshot(frame.write, expressions.value_of(frame, node))
    names = []
    for key in node.keys:
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            frame.refuse(node, "a dict has keys that are no literal texts", "Write out the names.")
        names.append(key.value)
    values = [snapshot(frame.write, expressions.value_of(frame, each)) for each in node.values]
    # Of two entries of a name the last counts.
    last = dict(zip(names, values, strict=True))
    given = expressions.tuple_of(list(last.values()))
    type_ = Type("tuple", items=given.type.items, names=tuple(last))
    return Value(type_, given.parts)


def prefix(number: int) -> str:
    return f"st{number}"


def current(frame: Frame, number: int) -> Value:
    """What is kept of a state for the key of the row."""
    return loaded(prefix(number), frame.kernel.state(number))


def _got(frame: Frame, node: ast.AST, number: int, info: StateInfo) -> Value:
    kept = snapshot(frame.write, current(frame, number))
    if info.kind.name != AGGREGATING.name:
        return kept
    assert kept.ok is not None
    return expressions.chosen(
        frame,
        node,
        kept.ok,
        lambda: _method(frame, node, info, "result", [kept.plain]),
        lambda: NOTHING,
    )


def _cleared(frame: Frame, number: int) -> None:
    name = prefix(number)
    frame.write(f"{name}_ok = False")
    frame.write(f"{name}_w = True")


def _updated(frame: Frame, node: ast.AST, number: int, value: Value) -> None:
    if value.type.kind == "none":
        _cleared(frame, number)
    elif value.ok is None:
        _put(frame, node, number, fitted_state(frame, node, number, value))
    else:
        frame.either(
            value.ok,
            lambda: _put(frame, node, number, fitted_state(frame, node, number, value.plain)),
            lambda: _cleared(frame, number),
        )


def _set(frame: Frame, node: ast.AST, number: int, at: Value) -> None:
    """Set a timer to a time, rounded up. None is an error, of which the function itself tells."""
    spec = frame.kernel.infos[number].timer
    assert spec is not None
    if at.type.kind == "none":
        frame.write("raise Trap")
        return
    at = fitted_state(frame, node, number, at)
    if spec.every_us > 1:
        at = Value(at.type, (frame.write.temp(f"rounded_up({at.code}, {spec.every_us})"),))
    _put(frame, node, number, at)


def fitted_state(frame: Frame, node: ast.AST, number: int, value: Value) -> Value:
    """A value as the state keeps it; None traps."""
    info = frame.kernel.infos[number]
    value = there(frame.write, value)
    try:
        if pa.types.is_struct(info.value.arrow):
            return _fitted_struct(frame, number, value, info.value.arrow)
        return fitted(frame.kernel, value, info.value.arrow, is_kept=True)
    except WrongFormError:
        frame.refuse(
            node,
            f"the state {info.name!r} is declared as {info.value.ddl} and is given {value.type}",
            "Convert it, with int(...) or float(...), or declare another type.",
        )


def _fitted_struct(frame: Frame, number: int, value: Value, arrow: pa.DataType) -> Value:
    if value.type.kind != "tuple":
        raise WrongFormError
    fields = list(arrow)
    names = value.type.names
    items: list[Value] = value.items()
    if names is not None:
        if not {field.name for field in fields}.issuperset(names):
            raise WrongFormError
        by_name = dict(zip(names, items, strict=True))
        items = [by_name.get(field.name, NOTHING) for field in fields]
    if len(items) != len(fields):
        raise WrongFormError
    type_ = frame.kernel.state(number).plain
    parts: list[str] = []
    for field, item, to in zip(fields, items, type_.items, strict=True):
        parts += _fitted_field(frame, item, field, to).parts
    return Value(type_, tuple(parts))


def _fitted_field(frame: Frame, item: Value, field: pa.Field, to: Type) -> Value:
    kernel, write = frame.kernel, frame.write
    if item.type.kind == "none" or not to.optional:
        if item.type.kind == "none":
            return converted(write, kernel, item, to)
        return fitted(kernel, item, field.type, is_kept=True)
    if item.ok is None:
        return converted(write, kernel, fitted(kernel, item, field.type, is_kept=True), to)
    # What is not there is not checked.
    name = write.name()
    names = tuple(f"{name}_{end}" for end, _ in to.parts)
    for each, (_, zero) in zip(names, to.parts, strict=True):
        write(f"{each} = {zero}")
    write(f"if {item.ok}:")
    with write.block():
        own = fitted(kernel, item.plain, field.type, is_kept=True)
        for each, part in zip(names, (*own.parts, "True"), strict=True):
            write(f"{each} = {part}")
    return Value(to, names)


def _put(frame: Frame, node: ast.AST, number: int, value: Value) -> None:
    name, type_ = prefix(number), frame.kernel.state(number)
    value = converted(frame.write, frame.kernel, value, type_)
    for (end, _), part in zip(type_.parts, value.parts, strict=True):
        frame.write(f"{name}_{end} = {part}")
    frame.write(f"{name}_w = True")


# ---------------------------------------------------------------- folding


def _reduced(frame: Frame, node: ast.AST, number: int, info: StateInfo, value: Value) -> None:
    value = snapshot(frame.write, fitted_state(frame, node, number, value))
    kept = snapshot(frame.write, current(frame, number))
    assert kept.ok is not None

    def fold() -> None:
        path: Path = (("state", info.name),)
        both = [kept.plain, value]
        result = applied(frame, node, info.function, path, both)
        _put(frame, node, number, fitted_state(frame, node, number, result))

    frame.either(kept.ok, fold, lambda: _put(frame, node, number, value))


def applied(frame: Frame, node: ast.AST, function: Any, path: Path, values: list[Value]) -> Value:
    """A function of two values, of Python or of the author's own."""
    if isinstance(function, FunctionType):
        own = inlining.Own(function, path, list(values), {})
        return inlining.inlined(frame, node, own)
    try:
        stand_in = ast.Call(ast.Name("function"), [], [])
        ast.copy_location(stand_in, node)
        return calls._called_with(frame, stand_in, function, values)
    except Exception as error:
        if isinstance(error, (NoSuchOperationError, TypeError)):
            name = getattr(function, "__name__", str(function))
            frame.refuse(
                node,
                f"the function {name} of a ReducingState has no compiled form",
                "Write it as a function of two values in Python, or use operator.add, min or max.",
            )
        raise


def _aggregated(frame: Frame, node: ast.AST, number: int, info: StateInfo, value: Value) -> None:
    kept = snapshot(frame.write, current(frame, number))
    assert kept.ok is not None
    accumulator = expressions.chosen(
        frame, node, kept.ok, lambda: kept.plain, lambda: _created(frame, node, number, info)
    )
    changed = _method(frame, node, info, "add", [accumulator, value])
    if changed.type.kind == "none":
        changed = accumulator
    elif changed.ok is not None:
        plain = changed.plain
        changed = expressions.chosen(frame, node, changed.ok, lambda: plain, lambda: accumulator)
    _updated(frame, node, number, changed)


def _created(frame: Frame, node: ast.AST, number: int, info: StateInfo) -> Value:
    created = _method(frame, node, info, "create", [])
    if info.value.thaw is None:
        return created
    return fitted_state(frame, node, number, created)


def _method(frame: Frame, node: ast.AST, info: StateInfo, name: str, values: list[Value]) -> Value:
    """A call of a method of what an AggregatingState was declared with."""
    path: Path = (("state", info.name),)
    found = getattr(info.function, name)
    function = getattr(found, "__func__", found)
    if not isinstance(function, FunctionType):
        frame.refuse(node, f"{name}() of {format_type(info.value.arrow)} is not written in Python")
    me: list[Value | Thing] = []
    if hasattr(found, "__self__"):
        me = [Thing("self", found.__self__, path)]
    inner: Path = (*path, ("attr", name), *((("attr", "__func__"),) if me else ()))
    own = inlining.Own(function, inner, [*me, *values], {})
    return inlining.inlined(frame, node, own)

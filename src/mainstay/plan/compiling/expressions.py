"""Expressions: what each comes to, as a value of the kernel."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from functools import cached_property
from types import ModuleType
from typing import Any

from mainstay.plan.compiling import calls
from mainstay.plan.compiling.conversions import converted, snapshot, there, truth
from mainstay.plan.compiling.frame import Frame, both
from mainstay.plan.compiling.lifting import UnknownNameError, free_name, is_simple, lifted
from mainstay.plan.compiling.operations import NoSuchOperationError, binary, compared, equal, unary
from mainstay.plan.compiling.refusal import WITHOUT
from mainstay.plan.compiling.types import BOOL, INT, Type, coded, joined
from mainstay.plan.compiling.values import FALSE, NOTHING, TRUE, Thing, Value
from mainstay.runtime.row_context import _READABLE
from mainstay.schema import format_type
from mainstay.spelling import did_you_mean
from mainstay.state.declaration import StateDeclaration

_SIGNS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_NO_PLACE = {
    ast.JoinedStr: "a text that is put together",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.List: "a list",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.Lambda: "a lambda",
    ast.Await: "await",
    ast.Starred: "a star",
    ast.Slice: "a slice",
    ast.YieldFrom: "yield from",
    ast.Yield: "a yield that gives a value back",
}
_COMPUTE_BEFORE = (
    "Compute it before, on whole batches: with_columns(...) of the stream. Or leave out "
    "compiled=True, and the function runs as ordinary Python."
)


def value_of(frame: Frame, node: ast.expr) -> Value:
    """What an expression gives."""
    found = evaluated(frame, node)
    if isinstance(found, Value):
        return found
    return _no_value(frame, node, found)


def _no_value(frame: Frame, node: ast.expr, found: Thing) -> Value:
    if found.kind == "collection" and isinstance(found.object, tuple) and is_simple(found.object):
        frame.kernel.guard(found.path, found.object)
        return tuple_of(
            [NOTHING if each is None else _literal(frame, node, each) for each in found.object]
        )
    if found.kind == "state":
        frame.refuse(
            node,
            f"the state {found.name!r} is used as a value",
            f"Write self.{found.name}.get() to read it.",
        )
    text = ast.unparse(node)
    if isinstance(found.object, datetime) and found.object.tzinfo is not None:
        remedy = f"Give it in UTC, as all times of rows are: {text}.astimezone(timezone.utc)."
        frame.refuse(node, f"{text!r} is a datetime of another time zone", remedy)
    frame.refuse(
        node,
        f"{text!r} is {_kind_of(found)}, and compiled code has only numbers, booleans, texts, "
        "times and tuples of them",
    )


def _kind_of(found: Thing) -> str:
    if found.kind in ("self", "ctx"):
        return "the function itself" if found.kind == "self" else "the context"
    kind = type(found.object).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def evaluated(frame: Frame, node: ast.expr) -> Value | Thing:
    """What an expression gives, or what it names."""
    how = _EXPRESSIONS.get(type(node))
    if how is None:
        what = _NO_PLACE.get(type(node), type(node).__name__)
        frame.refuse(node, f"{what} has no place in compiled code", _COMPUTE_BEFORE)
    try:
        return how(frame, node)
    except NoSuchOperationError:
        frame.refuse(node, f"{ast.unparse(node)!r} has no compiled form")


def tuple_of(values: Sequence[Value]) -> Value:
    type_ = Type("tuple", items=tuple(value.type for value in values))
    return Value(type_, tuple(part for value in values for part in value.parts))


# ---------------------------------------------------------------- leaves


def _constant(frame: Frame, node: ast.Constant) -> Value:
    if node.value is None:
        return NOTHING
    return _literal(frame, node, node.value)


def _literal(frame: Frame, node: ast.expr, literal: Any) -> Value:
    if isinstance(literal, bool):
        return TRUE if literal else FALSE
    value = frame.kernel.literal(literal)
    if value is None:
        frame.refuse(node, f"{literal!r} does not fit 64 bits or has no compiled form")
    assert value is not None
    return value


def _name(frame: Frame, node: ast.Name) -> Value | Thing:
    if node.id in frame.bound:
        return frame.bound[node.id]
    if frame.known is not None and node.id in frame.known:
        return frame.read(node.id, node)
    if node.id in frame.function.__code__.co_varnames:
        # It is assigned somewhere, but on no way to this place.
        frame.write("raise Trap")
        return NOTHING
    try:
        return free_name(frame.kernel, frame.function, frame.path, node.id)
    except UnknownNameError:
        frame.refuse(
            node,
            f"nothing is called {node.id!r}",
            "Assign it, or import it, before the job starts.",
        )


def _tuple(frame: Frame, node: ast.Tuple) -> Value:
    return tuple_of([snapshot(frame.write, value_of(frame, each)) for each in node.elts])


def _named_expression(frame: Frame, node: ast.NamedExpr) -> Value:
    value = value_of(frame, node.value)
    frame.assign(node.target.id, value, node)
    return value


# ---------------------------------------------------------------- parts of things


def _attribute(frame: Frame, node: ast.Attribute) -> Value | Thing:
    owner = evaluated(frame, node.value)
    if isinstance(owner, Value):
        return _attribute_of_value(frame, node, owner)
    if owner.kind == "self":
        return _attribute_of_self(frame, node, owner)
    if owner.kind == "ctx":
        return _attribute_of_context(frame, node)
    if owner.kind == "object" and isinstance(owner.object, ModuleType | type):
        if hasattr(owner.object, node.attr):
            found = getattr(owner.object, node.attr)
            return lifted(frame.kernel, found, (*owner.path, ("attr", node.attr)))
        frame.refuse(node, f"{ast.unparse(node.value)} has no {node.attr!r}", "Correct the name.")
    if owner.kind == "instance":
        found = _attribute_of(frame, node, owner.object, node.attr)
        if found is not _MISSING:
            return lifted(frame.kernel, found, (*owner.path, ("attr", node.attr)))
    return _no_value(frame, node.value, owner)


def _attribute_of_value(frame: Frame, node: ast.Attribute, owner: Value) -> Value:
    kind, name = owner.type.kind, node.attr
    if kind == "row":
        there(frame.write, owner)
        return _column(frame, node, name)
    if kind == "tuple" and owner.type.names is not None:
        if name in owner.type.names:
            return there(frame.write, owner).item(owner.type.names.index(name))
        frame.refuse(
            node,
            f"the row has no field {name!r}; it has {', '.join(owner.type.names)}",
            f"Correct the name.{did_you_mean(name, owner.type.names)}",
        )
    if kind in calls.PARTS_OF_TIME and name in calls.PARTS_OF_TIME[kind]:
        plain = there(frame.write, owner)
        code = calls.PARTS_OF_TIME[kind][name].format(plain.code)
        return Value(INT, (frame.write.temp(code),))
    if kind == "none":
        frame.write("raise Trap")
        return NOTHING
    frame.refuse(node, f"{owner.type} has no compiled attribute {name!r}", _COMPUTE_BEFORE)


def _column(frame: Frame, node: ast.expr, name: str) -> Value:
    kernel = frame.kernel
    if name not in kernel.visible:
        frame.refuse(
            node,
            f"the row has no column {name!r}; its columns are {', '.join(kernel.visible)}",
            f"Correct the name.{did_you_mean(name, kernel.visible)}",
        )
    return kernel.column(kernel.visible[name])


def _mangled(frame: Frame, name: str) -> str:
    """A private name of a class, as Python has it."""
    if not name.startswith("__") or name.endswith("__"):
        return name
    *_, owner, _ = ["", *frame.function.__qualname__.split(".")]
    return f"_{owner.lstrip('_')}{name}" if owner else name


def _attribute_of_self(frame: Frame, node: ast.Attribute, owner: Thing) -> Value | Thing:
    function, name = owner.object, _mangled(frame, node.attr)
    for state in frame.kernel.infos if function is frame.kernel.function else ():
        if state.name == name:
            return Thing("state", None, owner.path, state, name)
    found = _attribute_of(frame, node, function, name)
    if found is _MISSING:
        frame.refuse(
            node,
            f"self.{name} is not there when the job starts",
            "Set it in __init__, or in the body of the class; what open() sets is not known yet.",
        )
    if isinstance(found, StateDeclaration) or hasattr(type(found), "emit_many"):
        frame.refuse(node, f"self.{name} is no state that compiled code can use")
    path = (*owner.path, ("attr", name))
    if callable(found) and not isinstance(found, type):
        return Thing("method" if hasattr(found, "__self__") else "object", found, path, name=name)
    return lifted(frame.kernel, found, path)


_MISSING = object()


def _attribute_of(frame: Frame, node: ast.Attribute, owner: Any, name: str) -> Any:
    """What an object has under a name; refused where it is computed whenever it is asked for."""
    static = inspect.getattr_static(owner, name, _MISSING)
    if static is _MISSING:
        return _MISSING
    if isinstance(static, property | cached_property) and not isinstance(owner, Enum):
        frame.refuse(
            node,
            f"{ast.unparse(node)} is a property",
            f"Make a method of it, and write {ast.unparse(node)}().",
        )
    return getattr(owner, name, _MISSING)


def _attribute_of_context(frame: Frame, node: ast.Attribute) -> Value | Thing:
    kernel, name = frame.kernel, node.attr
    if name == "key":
        return kernel.key()
    if name in ("subtask", "parallelism"):
        return kernel.asked((("ctx", name),), "int")
    if name == "uid":
        return kernel.asked((("ctx", name),), "str")
    if name == "watermark":
        return kernel.asked((("ctx", name),), "zoned", optional=True)
    if name in ("timer", "time_domain"):
        # They say something in on_timer alone.
        return NOTHING
    if name == "timers":
        remedy = (
            'Declare the timer, as in close = ms.Timer("event_time") in the class, and call '
            "self.close.set(at): it has one time for each key."
        )
        frame.refuse(node, "ctx.timers has no compiled form", remedy)
    if name in _READABLE:
        remedy = (
            "Compiled code has ctx.key, ctx.watermark, ctx.now(), ctx.subtask and "
            "ctx.parallelism. " + WITHOUT
        )
        frame.refuse(node, f"ctx.{name} has no compiled form", remedy)
    frame.refuse(node, f"ctx has no {name!r}", f"ctx has {', '.join(_READABLE)}.")


def _index(node: ast.expr) -> Any:
    """The literal that an index is; None of any other."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    owner = value_of(frame, node.value)
    told = _index(node.slice)
    if owner.type.kind == "row":
        there(frame.write, owner)
        if isinstance(told, str):
            return _column(frame, node, told)
        names = list(frame.kernel.visible)
        if type(told) is int and -len(names) <= told < len(names):
            return _column(frame, node, names[told])
    if owner.type.kind == "tuple":
        names = list(owner.type.names or ())
        if isinstance(told, str) and told in names:
            told = names.index(told)
        count = len(owner.type.items)
        if type(told) is int and -count <= told < count:
            return there(frame.write, owner).item(told % count)
    frame.refuse(
        node,
        f"{ast.unparse(node)!r} is no column and no field that is known by its name or number",
        "Write the name or the number of a column, or of a field of a tuple, as a literal.",
    )


# ---------------------------------------------------------------- operators


def _binary(frame: Frame, node: ast.BinOp) -> Value:
    left = snapshot(frame.write, value_of(frame, node.left))
    right = value_of(frame, node.right)
    return operated(frame, node, node.op, left, right)


def operated(frame: Frame, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """The value of an operator, or a refusal with both types."""
    if "none" in (left.type.kind, right.type.kind):
        frame.write("raise Trap")
        return NOTHING
    try:
        return binary(frame.write, op, left, right)
    except NoSuchOperationError:
        remedy = _COMPUTE_BEFORE
        if isinstance(op, ast.Pow):
            remedy = (
                "A whole number is raised to a literal that is not negative, a float to anything."
            )
        frame.refuse(
            node, f"{left.type} {_SIGNS[type(op)]} {right.type} has no compiled form", remedy
        )


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return Value(BOOL, (frame.write.temp(f"not ({condition(frame, node.operand)})"),))
    value = value_of(frame, node.operand)
    if value.type.kind == "none":
        frame.write("raise Trap")
        return NOTHING
    return unary(frame.write, node.op, value)


def _boolean(frame: Frame, node: ast.BoolOp) -> Value:
    """``a and b``, ``a or b``: the value of the one that decides."""
    first, *others = node.values
    value = snapshot(frame.write, value_of(frame, first))
    for other in others:
        value = _decided(frame, node, value, other)
    return value


def _decided(frame: Frame, node: ast.BoolOp, left: Value, right: ast.expr) -> Value:
    is_or = isinstance(node.op, ast.Or)
    told = frame.write.temp(truth_of(frame, node, left))
    # What is true is there.
    kept = left.plain if is_or else left
    kept_lines: Callable[[], Value] = lambda: kept  # noqa: E731
    other_lines: Callable[[], Value] = lambda: value_of(frame, right)  # noqa: E731
    then, other = (kept_lines, other_lines) if is_or else (other_lines, kept_lines)
    return chosen(frame, node, told, then, other)


def chosen(
    frame: Frame,
    node: ast.AST,
    told: str,
    then: Callable[[], Value],
    other: Callable[[], Value],
) -> Value:
    """The value of one of two expressions, as one type."""
    start = frame.known
    values: list[Value] = []
    drafts = []
    for each in (then, other):
        drafts.append(frame.branch(start, lambda each=each: values.append(each())))  # type: ignore[misc]
    type_ = joined(values[0].type, values[1].type)
    if type_ is None:
        frame.refuse(
            node,
            f"{ast.unparse(node)!r} is {values[0].type} or {values[1].type}",
            "Give both the same type.",
        )
    assert type_ is not None
    frame.known = both(drafts[0][1], drafts[1][1])
    name = frame.write.name()
    result = tuple(f"{name}_{end}" for end, _ in type_.parts)
    blocks = []
    for (lines, known), value in zip(drafts, values, strict=True):
        with frame.write.draft() as more:
            own = converted(frame.write, frame.kernel, value, type_)
            for target, part in zip(result, own.parts, strict=True):
                frame.write(f"{target} = {part}")
            frame.bring(known, frame.known)
        blocks.append(lines + more)
    for sign, lines in zip((f"if {told}:", "else:"), blocks, strict=True):
        frame.write(sign)
        with frame.write.block():
            frame.write.put(lines)
    return Value(type_, result)


def _if_expression(frame: Frame, node: ast.IfExp) -> Value:
    told = condition(frame, node.test)
    return chosen(
        frame, node, told, lambda: value_of(frame, node.body), lambda: value_of(frame, node.orelse)
    )


def condition(frame: Frame, node: ast.expr) -> str:
    """Whether an expression is true, as a name. Each part is computed only where it counts."""
    write = frame.write
    if isinstance(node, ast.BoolOp):
        return _conditions(frame, node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return write.temp(f"not {condition(frame, node.operand)}")
    return write.temp(truth_of(frame, node, value_of(frame, node)))


def truth_of(frame: Frame, node: ast.AST, value: Value) -> str:
    """Whether a value is true; refused where only Python can tell."""
    if value.type.kind == "column" and coded(value.type) is None:
        told = format_type(value.type.arrow)
        frame.refuse(node, f"whether a value of {told} is true has no compiled form")
    return truth(frame.write, frame.kernel, value)


def _conditions(frame: Frame, node: ast.BoolOp) -> str:
    write = frame.write
    told: str = write.name()
    write(f"{told} = {condition(frame, node.values[0])}")
    for each in node.values[1:]:
        asks = told if isinstance(node.op, ast.And) else f"not {told}"

        def ask(each: ast.expr = each) -> None:
            write(f"{told} = {condition(frame, each)}")

        frame.either(asks, ask, lambda: None)
    return told


def _comparison(frame: Frame, node: ast.Compare) -> Value:
    """``a < b < c`` compares each pair until one does not hold."""
    write = frame.write
    left = value_or_collection(frame, node.left)
    told: str = write.name()
    write(f"{told} = True")

    def compare(number: int, left: Value | Thing) -> None:
        op, right = node.ops[number], value_or_collection(frame, node.comparators[number])
        write(f"{told} = {_compared(frame, node, op, left, right)}")
        if number + 1 < len(node.ops):
            frame.either(told, lambda: compare(number + 1, right), lambda: None)

    compare(0, left)
    return Value(BOOL, (told,))


def value_or_collection(frame: Frame, node: ast.expr) -> Value | Thing:
    found = (
        evaluated(frame, node)
        if not isinstance(node, ast.Set | ast.List)
        else _elements(frame, node)
    )
    if isinstance(found, Value):
        return snapshot(frame.write, found)
    return found if found.kind == "collection" else value_of(frame, node)


def _elements(frame: Frame, node: ast.Set | ast.List) -> Value:
    """A list or a set that is only asked what is in it."""
    return tuple_of([snapshot(frame.write, value_of(frame, each)) for each in node.elts])


def _compared(
    frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value | Thing, right: Value | Thing
) -> str:
    write = frame.write
    if isinstance(left, Thing):
        left = value_of(frame, node.left)
    if isinstance(op, ast.In | ast.NotIn):
        found = _is_in(frame, node, left, right)
        return found if isinstance(op, ast.In) else write.temp(f"not {found}")
    if isinstance(right, Thing):
        right = _no_value(frame, node, right)
    if isinstance(op, ast.Is | ast.IsNot):
        return _is(frame, node, op, left, right)
    try:
        return compared(write, frame.kernel, op, left, right)
    except NoSuchOperationError:
        if "none" in (left.type.kind, right.type.kind):
            write("raise Trap")
            return "False"
        frame.refuse(
            node,
            f"{left.type} {_SIGNS[type(op)]} {right.type} has no compiled form",
            _COMPUTE_BEFORE,
        )


def _is(frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> str:
    kinds = {left.type.kind, right.type.kind}
    if "none" not in kinds and kinds != {"bool"}:
        frame.refuse(
            node, "'is' compares which object something is", "Write == instead, or 'is None'."
        )
    same = equal(frame.write, frame.kernel, left, right)
    return same if isinstance(op, ast.Is) else frame.write.temp(f"not {same}")


def _is_in(frame: Frame, node: ast.Compare, left: Value, right: Value | Thing) -> str:
    write = frame.write
    if isinstance(right, Thing):
        if not is_simple(right.object):
            frame.refuse(
                node,
                "its elements are not plain values, or are more than a thousand",
                "Compute it before, on whole batches: with_columns(...) of the stream.",
            )
        frame.kernel.guard(right.path, right.object)
        values = [NOTHING if each is None else _literal(frame, node, each) for each in right.object]
    elif right.type.kind == "tuple" and not right.type.optional:
        values = right.items()
    else:
        frame.refuse(node, f"{right.type} is nothing to look into", _COMPUTE_BEFORE)
    if left.type.plain.kind == "float":
        # What is the same object is in it, although NaN equals nothing.
        write.trap_unless(f"{left.code} == {left.code}")
    told: str = write.name()
    write(f"{told} = False")
    for value in values:
        write(f"if not {told}:")
        with write.block():
            write(f"{told} = {equal(write, frame.kernel, left, value)}")
    return told


def _call(frame: Frame, node: ast.Call) -> Value:
    return calls.called(frame, node)


_EXPRESSIONS: dict[type[ast.expr], Callable[[Frame, Any], Value | Thing]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.NamedExpr: _named_expression,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.IfExp: _if_expression,
    ast.Compare: _comparison,
    ast.Call: _call,
}

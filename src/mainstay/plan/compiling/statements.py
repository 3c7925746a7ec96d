"""Statements: assignments, branches, loops, and the ends of a function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from mainstay.plan.compiling import calls, expressions
from mainstay.plan.compiling.conversions import snapshot, there
from mainstay.plan.compiling.frame import Frame, Known, Loop, both
from mainstay.plan.compiling.refusal import WITHOUT
from mainstay.plan.compiling.types import INT
from mainstay.plan.compiling.values import NOTHING, Thing, Value

_NO_PLACE = {
    ast.Try: ("try", "Check for what may go wrong before it does, with if."),
    ast.With: ("with", WITHOUT),
    ast.FunctionDef: ("a function within a function", "Define it at the top of the module."),
    ast.ClassDef: ("a class within a function", "Define it at the top of the module."),
    ast.Import: ("an import", "Import it at the top of the module."),
    ast.ImportFrom: ("an import", "Import it at the top of the module."),
    ast.Global: ("global", "Keep what lasts in a state."),
    ast.Nonlocal: ("nonlocal", "Keep what lasts in a state."),
    ast.Delete: ("del", "Leave it out; a state is emptied with clear()."),
}

MOST_ROUNDS = 20
"""How often a loop is compiled until the types of its variables are known."""


def function(frame: Frame, node: ast.FunctionDef | ast.Lambda) -> None:
    """A body, up to its end."""
    if isinstance(node, ast.Lambda):
        _finish(frame, expressions.value_of(frame, node.body), node)
        return
    body(frame, node.body)
    if frame.known is not None:
        _finish(frame, None, node)


def _finish(frame: Frame, value: Value | None, node: ast.AST) -> None:
    frame.given(frame, value, node)
    frame.leave()


def body(frame: Frame, nodes: Sequence[ast.stmt]) -> None:
    for node in nodes:
        if frame.known is None:
            return
        statement(frame, node)


def statement(frame: Frame, node: ast.stmt) -> None:
    how = _STATEMENTS.get(type(node))
    if how is None:
        what, remedy = _NO_PLACE.get(type(node), (type(node).__name__.lower(), WITHOUT))
        frame.refuse(node, f"{what} has no place in compiled code", remedy)
    how(frame, node)


# ---------------------------------------------------------------- plain statements


def _expression(frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Yield):
        if frame.emits is None:
            frame.refuse(node, "a yield has no place here")
        assert frame.emits is not None
        frame.emits(frame, node.value.value, node)
    elif isinstance(node.value, ast.YieldFrom):
        _yield_from(frame, node.value.value, node)
    elif not isinstance(node.value, ast.Constant):
        expressions.evaluated(frame, node.value)


def _yield_from(frame: Frame, given: ast.expr, node: ast.Expr) -> None:
    """Rows that are written down, or those of a generator of the author's own."""
    if frame.emits is None:
        frame.refuse(node, "a yield has no place here")
    assert frame.emits is not None
    if isinstance(given, ast.Tuple | ast.List):
        for each in given.elts:
            frame.emits(frame, each, node)
    elif not isinstance(given, ast.Call) or not calls.generated(frame, given):
        frame.refuse(
            node,
            f"yield from {ast.unparse(given)} has no compiled form",
            "Compiled code has yield from a tuple or a list that is written out, and from a "
            f"function or a method of your own that yields. {WITHOUT}",
        )


def _assign(frame: Frame, node: ast.Assign) -> None:
    value = _assigned(frame, node.value)
    for target in node.targets:
        _to(frame, target, value)


def _assigned(frame: Frame, node: ast.expr) -> Value:
    found = expressions.evaluated(frame, node)
    if isinstance(found, Thing) and found.kind != "collection":
        frame.refuse(
            node,
            f"{ast.unparse(node)!r} is given another name",
            "Use it by its own name: a variable of compiled code holds numbers, texts and times.",
        )
    value = found if isinstance(found, Value) else expressions.value_of(frame, node)
    return snapshot(frame.write, value)


def _to(frame: Frame, target: ast.expr, value: Value) -> None:
    if isinstance(target, ast.Name):
        frame.assign(target.id, value, target)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(frame, target, value)
    else:
        remedy = "Keep what lasts in a state: self.total = ms.ValueState(...) in the class."
        frame.refuse(target, f"{ast.unparse(target)!r} is assigned", remedy)


def _unpack(frame: Frame, target: ast.Tuple | ast.List, value: Value) -> None:
    if value.type.kind == "none":
        frame.write("raise Trap")
        frame.known = None
        return
    if value.type.kind == "row":
        there(frame.write, value)
        items = [frame.kernel.column(number) for number in frame.kernel.visible.values()]
    elif value.type.kind == "tuple":
        items = there(frame.write, value).items()
    else:
        frame.refuse(target, f"{value.type} is unpacked", WITHOUT)
    if len(items) != len(target.elts):
        frame.refuse(
            target,
            f"{len(items)} values are unpacked into {len(target.elts)} names",
            "Write a name for each value.",
        )
    for each, item in zip(target.elts, items, strict=True):
        _to(frame, each, item)


def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is not None:
        _to(frame, node.target, _assigned(frame, node.value))


def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        _to(frame, node.target, NOTHING)
        return
    name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
    left = snapshot(frame.write, expressions.value_of(frame, name))
    right = expressions.value_of(frame, node.value)
    frame.assign(node.target.id, expressions.operated(frame, node, node.op, left, right), node)


def _pass(frame: Frame, node: ast.stmt) -> None:
    """Nothing."""


def _return(frame: Frame, node: ast.Return) -> None:
    if frame.is_generator and isinstance(node.value, ast.List | ast.Dict):
        remedy = "Yield each row: what a function that yields returns is dropped."
        frame.refuse(node, "a function that yields returns rows", remedy)
    if frame.emits is not None and isinstance(node.value, ast.List | ast.Dict):
        frame.emits(frame, node.value, node)
        frame.leave()
        return
    value = None if node.value is None else expressions.value_of(frame, node.value)
    _finish(frame, value, node)


def _raise(frame: Frame, node: ast.Raise) -> None:
    """The function itself raises it."""
    frame.write("raise Trap")
    frame.known = None


def _assert(frame: Frame, node: ast.Assert) -> None:
    frame.write.trap_unless(expressions.condition(frame, node.test))


# ---------------------------------------------------------------- branches and loops


def _if(frame: Frame, node: ast.If) -> None:
    told = expressions.condition(frame, node.test)
    frame.either(told, lambda: body(frame, node.body), lambda: body(frame, node.orelse))


def _break(frame: Frame, node: ast.Break) -> None:
    loop = frame.loops[-1]
    loop.at_break = both(loop.at_break, frame.known)
    frame.bring(frame.known, loop.target[1])
    if loop.natural is not None:
        frame.write(f"{loop.natural} = False")
    frame.write("break")
    frame.known = None


def _continue(frame: Frame, node: ast.Continue) -> None:
    loop = frame.loops[-1]
    loop.at_continue = both(loop.at_continue, frame.known)
    frame.bring(frame.known, loop.target[0])
    frame.write("continue")
    frame.known = None


def _while(frame: Frame, node: ast.While) -> None:
    def head(loop: Loop) -> None:
        told = expressions.condition(frame, node.test)
        frame.write(f"if not {told}:")
        with frame.write.block():
            _leave_naturally(frame, loop)

    _loop(frame, node, "while True:", head)


def _leave_naturally(frame: Frame, loop: Loop) -> None:
    """The end of a loop that is left by its own condition."""
    loop.at_break = both(loop.at_break, frame.known)
    frame.bring(frame.known, loop.target[1])
    frame.write("break")


def _for(frame: Frame, node: ast.For) -> None:
    if not isinstance(node.target, ast.Name):
        frame.refuse(node, "the target of a loop is no plain name", "Unpack it in the loop.")
    if _is_range(frame, node.iter):
        _for_range(frame, node)
    else:
        _for_each(frame, node)


def _is_range(frame: Frame, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    found = expressions.evaluated(frame, node.func) if isinstance(node.func, ast.Name) else None
    return isinstance(found, Thing) and found.object is range


def _for_range(frame: Frame, node: ast.For) -> None:
    assert isinstance(node.iter, ast.Call)
    assert isinstance(node.target, ast.Name)
    bounds = [_bound(frame, each) for each in node.iter.args]
    if not 1 <= len(bounds) <= 3 or node.iter.keywords:
        frame.refuse(node, "range() takes one to three arguments", "Correct the arguments.")
    if len(bounds) == 3:
        frame.write.trap_unless(f"{bounds[2]} != 0")
    counter, target = frame.write.name(), node.target.id

    def head(_: Loop) -> None:
        frame.assign(target, Value(INT, (counter,)), node)

    _loop(frame, node, f"for {counter} in range({', '.join(bounds)}):", head, leaves=True)


def _bound(frame: Frame, node: ast.expr) -> str:
    value = there(frame.write, expressions.value_of(frame, node))
    if value.type.kind not in ("int", "bool"):
        frame.refuse(node, f"range() is given {value.type}", "Give it whole numbers.")
    code: str = frame.write.temp(f"int_({value.code})")
    frame.write.trap_unless(f"-2305843009213693952 <= {code} <= 2305843009213693952")
    return code


def _for_each(frame: Frame, node: ast.For) -> None:
    """A loop over a tuple: its body once for each element, with a choice in between."""
    assert isinstance(node.target, ast.Name)
    found = expressions.value_or_collection(frame, node.iter)
    value = found if isinstance(found, Value) else expressions.value_of(frame, node.iter)
    if value.type.kind != "tuple":
        frame.refuse(
            node, f"a loop over {value.type} has no compiled form", "Loop over range(...)."
        )
    items = there(frame.write, value).items()
    target = node.target.id
    counter = frame.write.name()

    def head(_: Loop) -> None:
        _choose(frame, node, target, counter, items, 0)

    _loop(frame, node, f"for {counter} in range({len(items)}):", head, leaves=True)


def _choose(
    frame: Frame, node: ast.For, target: str, counter: str, items: list[Value], number: int
) -> None:
    """Give the target of a loop the element whose turn it is."""
    if number + 1 >= len(items):
        if items:
            frame.assign(target, items[number], node)
        return
    frame.either(
        f"{counter} == {number}",
        lambda: frame.assign(target, items[number], node),
        lambda: _choose(frame, node, target, counter, items, number + 1),
    )


def _loop(
    frame: Frame,
    node: ast.While | ast.For,
    opening: str,
    head: Callable[[Loop], None],
    *,
    leaves: bool = False,
) -> None:
    """A loop: its body is drafted until what is known at its head and behind it is settled.

    ``leaves`` says that the opening itself ends it, at its head.
    """
    start = frame.known
    before, behind = frame.settled.get(node, (None, None))
    at_head, rounds = both(start, before), 0
    natural = frame.write.name("_natural") if node.orelse else None
    while True:
        loop = Loop(natural, target=(at_head, behind))
        lines, at_end = frame.branch(at_head, lambda loop=loop: _turn(frame, node, head, loop))  # type: ignore[misc]
        new_head = both(both(start, at_end), loop.at_continue)
        new_behind = loop.at_break
        if leaves:
            # It is left at its head, or by a break: what is known is the same in both places.
            new_head = new_behind = both(new_head, loop.at_break)
        if new_head == at_head and new_behind == behind:
            break
        at_head, behind, rounds = new_head, new_behind, rounds + 1
        if rounds > MOST_ROUNDS:
            remedy = "Give each variable a value of one type before the loop."
            frame.refuse(node, "a variable is of another type in each turn of a loop", remedy)
    frame.settled[node] = at_head, behind
    write = frame.write
    frame.bring(start, at_head)
    if natural is not None:
        write(f"{natural} = True")
    write(opening)
    with write.block():
        write.put(lines)
        write.put(frame.bringing(at_end, at_head))
    _behind(frame, node, loop, behind)


def _turn(
    frame: Frame, node: ast.While | ast.For, head: Callable[[Loop], None], loop: Loop
) -> None:
    head(loop)
    frame.loops.append(loop)
    body(frame, node.body)
    frame.loops.pop()


def _behind(frame: Frame, node: ast.While | ast.For, loop: Loop, behind: Known | None) -> None:
    write = frame.write
    if loop.returns:
        write(f"if {frame.done}:")
        with write.block():
            write("break")
    frame.known = None if behind is None else dict(behind)
    if node.orelse and frame.known is not None:
        frame.either(loop.natural or "True", lambda: body(frame, node.orelse), lambda: None)


_STATEMENTS: dict[type[ast.stmt], Callable[[Frame, Any], None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Pass: _pass,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _break,
    ast.Continue: _continue,
}

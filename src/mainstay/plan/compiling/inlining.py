"""Functions of the author's own, compiled in the place of their calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import NamedTuple

from mainstay.plan.compiling import expressions, statements
from mainstay.plan.compiling.conversions import converted, loaded, snapshot, stored
from mainstay.plan.compiling.frame import Frame
from mainstay.plan.compiling.lifting import lifted
from mainstay.plan.compiling.refusal import Written
from mainstay.plan.compiling.sources import written
from mainstay.plan.compiling.types import Type, joined
from mainstay.plan.compiling.values import NOTHING, Thing, Value
from mainstay.plan.compiling.writer import Lines
from mainstay.runtime.compiled.program import Path

DEEPEST = 20
"""Calls within calls."""

Given = Callable[[Frame, Value | None, ast.AST], None]
Arguments = list[Value | Thing]
Named = dict[str, Value | Thing]


class Own(NamedTuple):
    """A function that is called: how it is found again, and what it is given."""

    function: FunctionType
    path: Path
    positional: Arguments
    named: Named


def own_function(frame: Frame, node: ast.Call, found: Thing) -> Own | None:
    """What is called, if it is written in Python."""
    if found.kind == "method" and isinstance(found.object, MethodType):
        function, owner = found.object.__func__, found.object.__self__
        if not isinstance(function, FunctionType):
            frame.refuse(node, f"{ast.unparse(node.func)}() has no compiled form")
        positional, named = _arguments(frame, node)
        me = Thing("self", owner, found.path[:-1])
        return Own(function, (*found.path, ("attr", "__func__")), [me, *positional], named)
    if isinstance(found.object, FunctionType):
        return Own(found.object, found.path, *_arguments(frame, node))
    return None


def _arguments(frame: Frame, node: ast.Call) -> tuple[Arguments, Named]:
    """The arguments of a call, in names of their own."""
    if any(isinstance(each, ast.Starred) for each in node.args) or any(
        each.arg is None for each in node.keywords
    ):
        frame.refuse(node, "a star has no place in compiled code", "Write out the arguments.")
    positional = [_argument(frame, each) for each in node.args]
    named = {each.arg: _argument(frame, each.value) for each in node.keywords if each.arg}
    return positional, named


def _argument(frame: Frame, node: ast.expr) -> Value | Thing:
    found = expressions.evaluated(frame, node)
    return snapshot(frame.write, found) if isinstance(found, Value) else found


# ---------------------------------------------------------------- in the place of a call


def inlined(frame: Frame, node: ast.AST, own: Own) -> Value:
    """A function in the place of its call: what it returns."""
    function = own.function
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        frame.refuse(
            node,
            f"{function.__name__}() yields",
            "Emit its rows with yield from, or let it return a value.",
        )
    place = _place(frame, node, own)
    result_name = f"{place.prefix}ret"
    types: list[Type] = []

    def gather(inner: Frame, value: Value | None, at: ast.AST) -> None:
        types.append((value or NOTHING).type)
        stored(inner.write, result_name, value or NOTHING)

    lines = place.draft(gather)
    result = _joined(frame, node, place.function, types)

    def give(inner: Frame, value: Value | None, at: ast.AST) -> None:
        returned = converted(inner.write, inner.kernel, value or NOTHING, result)
        stored(inner.write, result_name, returned)

    if any(each != result for each in types):
        lines = place.draft(give)
    place.put(lines)
    return snapshot(frame.write, loaded(result_name, result))


def generated(frame: Frame, node: ast.AST, own: Own) -> None:
    """A generator in the place of its call: its rows go out, and what it returns is dropped."""
    place = _place(frame, node, own)
    place.put(place.draft(lambda *_: None))


@dataclass(frozen=True, slots=True)
class _Place:
    """A function where it is called, with variables of its own."""

    frame: Frame
    function: FunctionType
    path: Path
    bound: Named
    source: Written
    prefix: str

    def draft(self, given: Given) -> Lines:
        """Its body. A generator emits where its caller does."""
        is_generator = inspect.isgeneratorfunction(self.function)
        inner = Frame(
            self.frame.kernel,
            self.source,
            self.function,
            self.path,
            self.prefix,
            given,
            callers=(*self.frame.callers, self.function),
            emits=self.frame.emits if is_generator else None,
            is_generator=is_generator,
        )
        with self.frame.write.draft() as lines:
            _arguments_set(inner, self.bound, self.source.node)
            statements.function(inner, self.source.node)
        return lines

    def put(self, lines: Lines) -> None:
        """Put its body here; nothing is left of another turn of a loop that it stands in."""
        write = self.frame.write
        names = (*(f"{name}_set" for name in self.function.__code__.co_varnames), "done")
        for name in names:
            if f"{self.prefix}{name}" in write.zeros:
                write(f"{self.prefix}{name} = False")
        write("while True:")
        with write.block():
            write.put(lines)


def _place(frame: Frame, node: ast.AST, own: Own) -> _Place:
    function, path, *_ = own
    if function in frame.callers or len(frame.callers) > DEEPEST:
        frame.refuse(
            node,
            f"{function.__name__}() calls itself",
            "Write it as a loop, or leave out compiled=True.",
        )
    bound = _bound(frame, node, own)
    frame.kernel.guard(path, function)
    source = written(function, f"{frame.written.name}: {function.__name__}()")
    return _Place(frame, function, path, bound, source, f"h{frame.write.name()[1:]}_")


def _joined(frame: Frame, node: ast.AST, function: FunctionType, types: list[Type]) -> Type:
    result = types[0]
    for each in types[1:]:
        both = joined(result, each)
        if both is None:
            frame.refuse(
                node,
                f"{function.__name__}() returns {result} on one way and {each} on another",
                "Return one type.",
            )
        assert both is not None
        result = both
    return result


def _bound(frame: Frame, node: ast.AST, own: Own) -> Named:
    """Which argument has which value."""
    function, path, positional, named = own
    signature = inspect.signature(function, follow_wrapped=False)
    kinds = {each.kind for each in signature.parameters.values()}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        frame.refuse(node, f"{function.__name__}() takes any arguments", "Write them out.")
    try:
        given = signature.bind(*positional, **named).arguments
    except TypeError as error:
        frame.refuse(node, f"{function.__name__}(): {error}", "Correct the arguments.")
    for name, parameter in signature.parameters.items():
        if name not in given:
            given[name] = lifted(frame.kernel, parameter.default, (*path, ("default", name)))
    return dict(given)


def _arguments_set(inner: Frame, bound: Named, node: ast.AST) -> None:
    for name, value in bound.items():
        if isinstance(value, Value) and value.type.kind != "row":
            inner.assign(name, value, node)
        else:
            inner.bound[name] = value

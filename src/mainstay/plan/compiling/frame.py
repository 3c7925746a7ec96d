"""One function while it is compiled: its variables, its loops, and where its results go.

A function that is called is compiled in the place of the call. So each has variables with names of
their own, and a loop around its body that is left where it returns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import NoReturn

from mainstay.plan.compiling.conversions import converted, loaded, stored
from mainstay.plan.compiling.kernel import Kernel
from mainstay.plan.compiling.refusal import WITHOUT, Written
from mainstay.plan.compiling.types import Type, joined
from mainstay.plan.compiling.values import Thing, Value
from mainstay.plan.compiling.writer import Lines, Writer
from mainstay.runtime.compiled.program import Path


@dataclass(frozen=True, slots=True)
class Variable:
    """What is known of a variable at one place: its type, and whether it may be unset.

    ``clash`` is the type that it also may have, where the two cannot be one.
    """

    type: Type
    may_be_unset: bool = False
    clash: Type | None = None


Known = dict[str, Variable]


def both(one: Known | None, other: Known | None) -> Known | None:
    """What is known where two ways meet; None is a way that nobody takes."""
    if one is None or other is None:
        only = other if one is None else one
        # A copy, because what is known goes on to change on the way that it is from.
        return None if only is None else dict(only)
    return {name: _both(one.get(name), other.get(name)) for name in {**one, **other}}


def _both(one: Variable | None, other: Variable | None) -> Variable:
    if one is None or other is None:
        known = one or other
        assert known is not None
        return replace(known, may_be_unset=True)
    unset = one.may_be_unset or other.may_be_unset
    type_ = joined(one.type, other.type)
    if type_ is None:
        return Variable(one.type, unset, other.type)
    clashes = [clash for clash in (one.clash, other.clash) if clash is not None]
    if not clashes:
        return Variable(type_, unset)
    apart = [clash for clash in clashes if joined(one.type, clash) is None]
    return Variable(one.type, unset, (apart or clashes)[0])


@dataclass
class Loop:
    """A loop of the author's: what is known where it is left and where it goes on."""

    natural: str | None
    """The flag of a loop with an else."""
    at_break: Known | None = None
    at_continue: Known | None = None
    target: tuple[Known | None, Known | None] = (None, None)
    """What is to be known at its head and behind it, in the last draft."""
    returns: bool = False


@dataclass
class Frame:
    """A function, and how far its compilation has come."""

    kernel: Kernel
    written: Written
    function: FunctionType
    path: Path
    prefix: str
    given: Callable[[Frame, Value | None, ast.AST], None]
    """What happens with a result; None is the end of the function without one."""
    bound: dict[str, Value | Thing] = field(default_factory=dict)
    """Arguments that are never assigned."""
    known: Known | None = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    callers: tuple[FunctionType, ...] = ()
    emits: Callable[[Frame, ast.expr | None, ast.AST], None] | None = None
    """What a yield does; None where there is none to be."""
    has_returned: bool = False
    is_generator: bool = False
    settled: dict[ast.AST, tuple[Known | None, Known | None]] = field(default_factory=dict)
    """What was known at the heads of loops and behind them when they were last compiled: a loop
    within a loop is compiled again with it, and need not begin anew."""

    @property
    def write(self) -> Writer:
        return self.kernel.write

    @property
    def done(self) -> str:
        return f"{self.prefix}done"

    def refuse(self, node: ast.AST, construct: str, remedy: str = WITHOUT) -> NoReturn:
        self.written.refuse(node, construct, remedy)

    # ------------------------------------------------------------ variables

    def assign(self, name: str, value: Value, node: ast.AST) -> None:
        """A variable has this value from here on."""
        if name in self.bound:
            self.refuse(node, f"the argument {name!r} is assigned", "Use another name.")
        assert self.known is not None
        stored(self.write, f"{self.prefix}{name}", value)
        self._is_set(name)
        self.known[name] = Variable(value.type)

    def _is_set(self, name: str) -> None:
        flag = f"{self.prefix}{name}_set"
        self.write.zeros.setdefault(flag, "False")
        self.write(f"{flag} = True")

    def read(self, name: str, node: ast.AST) -> Value:
        """The value of a variable here."""
        assert self.known is not None
        variable = self.known[name]
        if variable.clash is not None:
            self.refuse(
                node,
                f"{name!r} is {variable.type} on one way and {variable.clash} on another",
                "Use a variable of its own for each, or convert one of them.",
            )
        if variable.may_be_unset:
            self.write.trap_unless(f"{self.prefix}{name}_set")
        return loaded(f"{self.prefix}{name}", variable.type)

    def bring(self, known: Known | None, to: Known | None) -> None:
        """Convert variables to the types that they have where ways meet."""
        if known is None or to is None:
            return
        for name, variable in to.items():
            before = known.get(name)
            if before is None or before.clash or variable.clash or before.type == variable.type:
                continue
            if joined(before.type, variable.type) != variable.type:
                # A draft of a loop, whose head has more ways than are known yet.
                continue
            prefix = f"{self.prefix}{name}"
            value = converted(self.write, self.kernel, loaded(prefix, before.type), variable.type)
            stored(self.write, prefix, value)

    # ------------------------------------------------------------ ways

    def branch(self, start: Known | None, body: Callable[[], None]) -> tuple[Lines, Known | None]:
        """Write something aside, beginning with what is known."""
        before, self.known = self.known, None if start is None else dict(start)
        with self.write.draft() as lines:
            body()
        after, self.known = self.known, before
        return lines, after

    def bringing(self, known: Known | None, to: Known | None) -> Lines:
        with self.write.draft() as lines:
            self.bring(known, to)
        return lines

    def either(self, condition: str, then: Callable[[], None], other: Callable[[], None]) -> None:
        """One of two ways, and what is known behind both."""
        start = self.known
        then_lines, then_known = self.branch(start, then)
        other_lines, other_known = self.branch(start, other)
        self.known = both(then_known, other_known)
        then_lines = then_lines + self.bringing(then_known, self.known)
        other_lines = other_lines + self.bringing(other_known, self.known)
        write = self.write
        write(f"if {condition}:")
        with write.block():
            write.put(then_lines)
        if other_lines:
            write("else:")
            with write.block():
                write.put(other_lines)

    def leave(self) -> None:
        """Go to the end of the function."""
        if self.loops:
            self.write.zeros.setdefault(self.done, "False")
            self.write(f"{self.done} = True")
            for loop in self.loops:
                loop.returns = True
        self.write("break")
        self.has_returned = True
        self.known = None

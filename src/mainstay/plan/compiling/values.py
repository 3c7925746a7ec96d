"""Values of expressions: a type, and the names of what holds its parts in the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mainstay.plan.compiling.types import Type
from mainstay.runtime.compiled.program import Path
from mainstay.state.info import StateInfo


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression gives: for each part of its type a name or a literal."""

    type: Type
    parts: tuple[str, ...]
    literal: Any = None
    """What it is, where its author has written a literal."""

    @property
    def ok(self) -> str | None:
        """What says whether it is there; None if it always is."""
        return self.parts[-1] if self.type.optional and self.type.kind != "none" else None

    @property
    def code(self) -> str:
        """The one part of a plain value."""
        return self.parts[0]

    def item(self, number: int) -> Value:
        """One of the values of a tuple."""
        start = sum(len(each.parts) for each in self.type.items[:number])
        type_ = self.type.items[number]
        return Value(type_, self.parts[start : start + len(type_.parts)])

    def items(self) -> list[Value]:
        return [self.item(number) for number in range(len(self.type.items))]

    @property
    def plain(self) -> Value:
        """The same where it is known to be there."""
        if self.ok is None:
            return self
        return Value(self.type.plain, self.parts[:-1], self.literal)


@dataclass(frozen=True, slots=True)
class Thing:
    """What an expression names that is no value of a row: a function, a module, a state."""

    kind: Literal["self", "ctx", "state", "method", "object", "collection", "instance"]
    object: Any = None
    path: Path = ()
    state: StateInfo | None = None
    name: str = ""


NOTHING = Value(Type("none"), ())
TRUE, FALSE = Value(Type("bool"), ("True",), True), Value(Type("bool"), ("False",), False)

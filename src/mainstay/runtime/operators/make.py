"""How an operator gets to a worker: a class and its arguments, pickled together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainstay.runtime.operators.base import Operator


@dataclass(frozen=True, slots=True)
class Make:
    """A factory that calls a class with arguments; all of it is pickled and shipped."""

    operator: type[Operator]
    arguments: tuple[Any, ...]

    def build(self) -> Operator:
        return self.operator(*self.arguments)

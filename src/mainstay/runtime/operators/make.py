"""How an operator gets to a worker: a class and its arguments, pickled together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainstay.runtime.operators.aggregate import Gathering
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.window_results import WindowResults


@dataclass(frozen=True, slots=True)
class Make:
    """A factory that calls a class with arguments; all of it is pickled and shipped."""

    operator: type[Operator]
    arguments: tuple[Any, ...]

    def build(self) -> Operator:
        return self.operator(*self.arguments)


@dataclass(frozen=True, slots=True)
class MakeWindows:
    """The same for windows whose results become something else before they are emitted."""

    operator: type[Gathering]
    arguments: tuple[Any, ...]
    results: WindowResults

    def build(self) -> Operator:
        made = self.operator(*self.arguments)
        made.results = self.results
        return made

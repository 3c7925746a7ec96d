"""The calls that a processor makes of its handle, its states and its times, read from its text.

What is followed is what people write: states and handles in fields of ``self``, also several states
of a kind in a dict or a list there, and names for them within a method.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    ListState,
    MapState,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from mainstay.spark.checking.findings import FoundCall
from mainstay.spark.checking.syntax import assignments, field_of, method_calls

HANDLE, TIMES, EXPIRED = "handle", "timerValues", "expiredTimerInfo"
VALUE, LIST, MAP = "ValueState", "ListState", "MapState"
_MAKERS = {"getValueState": VALUE, "getListState": LIST, "getMapState": MAP}
_CLASSES: dict[str, type] = {
    HANDLE: StatefulProcessorHandle,
    VALUE: ValueState,
    LIST: ListState,
    MAP: MapState,
    TIMES: TimerValues,
    EXPIRED: ExpiredTimerInfo,
}
_CHANGING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "update"}
_CHANGING |= {"popitem", "setdefault", "appendleft", "popleft"}
_SETUP = ("__init__", "init")


@dataclass(slots=True)
class ClassCalls:
    """What the methods of a class do."""

    things: dict[str, str] = field(default_factory=dict)
    """Fields of ``self`` that hold the handle or a state, and which of them."""
    shelves: dict[str, str] = field(default_factory=dict)
    """Fields that hold a dict or a list of states, and of which kind."""
    calls: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    """Other fields that are changed outside of ``init``, and the first line of each."""
    methods: set[str] = field(default_factory=set)

    def found(self) -> tuple[FoundCall, ...]:
        """The calls, in the order of their first lines."""
        made = [
            FoundCall(on, method, tuple(sorted(lines)), is_supported(on, method))
            for (on, method), lines in self.calls.items()
        ]
        return tuple(sorted(made, key=lambda call: call.lines))

    def lines_of(self, on: str, *methods: str) -> list[int]:
        """Where any of some methods is called."""
        return sorted(line for name in methods for line in self.calls.get((on, name), ()))


def is_supported(on: str, method: str) -> bool:
    """Whether PySpark's class has the method: Mainstay has all that it has."""
    return not method.startswith("_") and hasattr(_CLASSES[on], method)


def calls_of(classes: Iterable[ast.ClassDef]) -> ClassCalls:
    """The calls of a class, of which the nodes of its bases are given after its own."""
    methods: dict[str, ast.FunctionDef] = {}
    for node in classes:
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                methods.setdefault(each.name, each)
    found = ClassCalls(methods=set(methods))
    if "init" in methods:
        _note_fields(methods["init"], found)
    for method in methods.values():
        _Method(method, found).read()
    return found


def _note_fields(init: ast.FunctionDef, found: ClassCalls) -> None:
    arguments = [each.arg for each in init.args.args]
    handle = arguments[1] if len(arguments) > 1 else ""
    for target, value in assignments(init):
        name, on_shelf = field_of(target, arguments[0]), None
        if name is None and isinstance(target, ast.Subscript):
            name, on_shelf = field_of(target.value, arguments[0]), _made_by(value)
        if name is None:
            continue
        made, on_shelf = _made_by(value), on_shelf or _made_in(value)
        if isinstance(value, ast.Name) and value.id == handle:
            found.things[name] = HANDLE
        elif on_shelf is not None:
            found.shelves[name] = on_shelf
        elif made is not None:
            found.things[name] = made


def _made_by(value: ast.expr | None) -> str | None:
    """Which kind of state an expression makes."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return _MAKERS.get(value.func.attr)
    return None


def _made_in(value: ast.expr | None) -> str | None:
    """Which kind of state is in a dict or a list, where all in it are of one."""
    items: list[ast.expr] = []
    if isinstance(value, ast.DictComp):
        items = [value.value]
    elif isinstance(value, ast.ListComp):
        items = [value.elt]
    elif isinstance(value, ast.Dict):
        items = value.values
    elif isinstance(value, ast.List | ast.Tuple):
        items = value.elts
    kinds = {_made_by(each) for each in items}
    return kinds.pop() if len(kinds) == 1 else None


class _Method:
    """Reads one method."""

    def __init__(self, node: ast.FunctionDef, found: ClassCalls) -> None:
        self._node = node
        self._found = found
        arguments = [each.arg for each in node.args.args]
        self._own = arguments[0] if arguments else ""
        self._names = {name: name for name in (TIMES, EXPIRED) if name in arguments}
        if node.name == "init" and len(arguments) > 1:
            self._names[arguments[1]] = HANDLE
        for target, value in assignments(node):
            thing = self._thing(value)
            if isinstance(target, ast.Name) and thing is not None:
                self._names[target.id] = thing

    def _thing(self, node: ast.AST | None) -> str | None:
        """What an expression stands for, if it is the handle, a state or a time."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Subscript):
            return self._found.shelves.get(field_of(node.value, self._own) or "")
        return self._found.things.get(field_of(node, self._own) or "")

    def read(self) -> None:
        for _, function in method_calls(self._node):
            self._read_call(function)
        if self._node.name not in _SETUP:
            for target, _ in assignments(self._node):
                self._note_change(target)

    def _read_call(self, function: ast.Attribute) -> None:
        thing = self._thing(function.value)
        if thing is not None:
            lines = self._found.calls.setdefault((thing, function.attr), [])
            lines.append(function.lineno)
        elif function.attr in _CHANGING and self._node.name not in _SETUP:
            self._note_change(function.value)

    def _note_change(self, target: ast.expr) -> None:
        while isinstance(target, ast.Subscript):
            target = target.value
        name = field_of(target, self._own)
        if name is not None and name not in self._found.things:
            first = self._found.changed.get(name, target.lineno)
            self._found.changed[name] = min(first, target.lineno)

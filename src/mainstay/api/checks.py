"""Checks of what a job's author hands to a stream: functions, schemas, declared states.

Every mistake that can be seen without running anything is a ``GraphError`` that names the
operator and says what to write instead. ``where`` is the operator as messages name it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.functions import Function
from mainstay.api.timing import with_timers
from mainstay.errors import GraphError, SchemaError
from mainstay.runtime.side_output import SideOutput, sides_of
from mainstay.runtime.spec import SideSpec
from mainstay.schema import format_schema, to_schema, to_type
from mainstay.state.declaration import StateDeclaration
from mainstay.state.declared_states import declarations_of
from mainstay.state.hashing import hash_columns
from mainstay.state.info import StateInfo, checked_queryable
from mainstay.state.kinds import BROADCAST_MAP

TIMER_HOOKS = {"on_timer": 2, "on_timers": 3}
"""What is called when a timer is due, and with how many arguments."""
_COUNTS = {1: "one argument: lambda row: ...", 2: "two: lambda one, other: ..."}


def checked_schema(declared: Any, where: str) -> pa.Schema:
    """The schema that an operator declares for its output."""
    if declared is None:
        raise GraphError(
            f"{where} needs the schema of the rows it emits, after the function: "
            '(..., "customer string, total long").'
        )
    try:
        return to_schema(declared)
    except GraphError as error:
        raise SchemaError(f"{where}: {error}") from error


def checked_key_type(declared: Any, where: str) -> pa.DataType:
    """The type of a key, which must be one that can be hashed."""
    try:
        arrow = to_type(declared)
        hash_columns([pa.array([], type=arrow)])
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error
    return arrow


def check_callable(
    function: Any,
    where: str,
    *,
    rows: int = 1,
    may_yield: bool = False,
    may_await: bool = False,
) -> None:
    """A function of a row, of two rows or of a batch: callable, without state, of that arity."""
    if isinstance(function, Function) or _is_class(function, Function):
        raise GraphError(
            f"{where} needs a plain function, not the {_base(function)} {_name(function)}. Call "
            "process(...) or process_batches(...) with an instance of it."
        )
    if not callable(function):
        raise GraphError(f"{where} needs a function, not {function!r}.")
    if names := [info.name for info in declarations_of(function)]:
        raise GraphError(
            f"{where}: {_name(function)} declares state ({', '.join(names)}), which a plain "
            "function cannot have. Make it a KeyedProcess or a Process and call process(...)."
        )
    if names := [side.name for side in sides_of(function)]:
        raise GraphError(
            f"{where}: {_name(function)} declares side outputs ({', '.join(names)}), which a plain "
            "function cannot have. Make it a KeyedProcess or a Process and call process(...)."
        )
    if not may_yield and inspect.isgeneratorfunction(_body(function)):
        raise GraphError(
            f"{where}: {_name(function)} yields, but must return one value. Use flat_map(...) for "
            "any number of rows."
        )
    expected = f"a function of {_COUNTS[rows]}"
    _check_call(function, rows, where, expected, may_await=may_await)


def check_arguments(function: Any, arguments: int, where: str, expected: str) -> None:
    """A plain function of so many arguments, which may yield what it emits."""
    if not callable(function):
        raise GraphError(f"{where} needs {expected}, not {function!r}.")
    _check_call(function, arguments, where, expected)


def check_filter(condition: pc.Expression, schema: pa.Schema, where: str) -> None:
    """An Arrow expression that gives a boolean for rows of a schema."""
    empty = pa.table(schema.empty_table().columns, schema=schema)
    try:
        empty.filter(condition)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise GraphError(
            f"{where}: {condition} cannot filter rows of {format_schema(schema)!r}: {error}. Write "
            'a comparison of its columns, as in ms.col("amount") > 5.'
        ) from error


def check_process(
    function: Any,
    cls: type[Function],
    methods: tuple[str, ...],
    where: str,
    hint: str,
    arguments: int = 2,
) -> None:
    """An instance of the right class, with the methods that it must have."""
    if isinstance(function, type):
        raise GraphError(
            f"{where} got the class {function.__name__}; give it an instance: "
            f"{function.__name__}(...)."
        )
    if not isinstance(function, cls):
        plain = " A plain function goes to map(...) or flat_map(...)."
        raise GraphError(
            f"{where} needs a {cls.__name__}, not {_name(function)}. {hint}"
            f"{plain if inspect.isroutine(function) else ''}"
        )
    for name in (*methods, *(name for name in TIMER_HOOKS if hasattr(cls, name))):
        if isinstance(declared := getattr(type(function), name, None), StateDeclaration):
            raise GraphError(
                f"{where}: {name} is a {type(declared).__name__}, in the place of the method "
                f"{_definition(cls, name)}. Call the state another name."
            )
    for name in methods:
        if getattr(type(function), name, None) is getattr(cls, name, None):
            raise GraphError(
                f"{where}: class {_name(function)} has no method {name}. Write "
                f"{_definition(cls, name)}: ..."
            )
    hooks = dict.fromkeys(methods, arguments) | {"open": 1, "close": 0}
    hooks |= dict.fromkeys(("on_snapshot", "on_snapshot_aborted", "on_snapshot_complete"), 1)
    hooks |= {name: count for name, count in TIMER_HOOKS.items() if hasattr(cls, name)}
    for name, given in hooks.items():
        _check_call(getattr(function, name), given, where, _definition(cls, name))


def checked_states(
    function: Any,
    where: str,
    *,
    keyed_allowed: bool,
    queryable: bool = True,
    broadcast: Sequence[str] = (),
) -> tuple[StateInfo, ...]:
    """The states that a function declares, if its stream can have them.

    ``broadcast`` are the inputs whose rows go to every subtask.
    """
    for name, value in _fields(function).items():
        if isinstance(value, StateDeclaration):
            raise GraphError(
                f"{where}: self.{name} is a {type(value).__name__} made by an instance. States "
                f"are declared in the body of the class, where they are known before the job runs: "
                f"class {type(function).__name__}: {name} = {type(value).__name__}(...)."
            )
    states = declarations_of(function)
    keyed = [info.name for info in states if info.is_keyed]
    if keyed and not keyed_allowed:
        raise GraphError(
            f"{where} declares keyed state ({', '.join(keyed)}) but its stream has no key. Call "
            "key_by(...) first, or declare an OperatorListState."
        )
    _check_broadcast(states, where, broadcast)
    timed = with_timers(function, states, where, keyed_allowed=keyed_allowed)
    return asked_about(timed, where, queryable=queryable)


def _check_broadcast(states: tuple[StateInfo, ...], where: str, inputs: Sequence[str]) -> None:
    names = [info.name for info in states if info.kind == BROADCAST_MAP]
    if names and not inputs:
        raise GraphError(
            f"{where} declares broadcast state ({', '.join(names)}), which only the rows of a "
            "broadcast input may change, and has no such input. Connect one, "
            "stream.connect(rules.broadcast()), or declare another kind of state."
        )


def checked_sides(function: Any, where: str) -> tuple[SideSpec, ...]:
    """The side outputs that a function declares."""
    for name, value in _fields(function).items():
        if isinstance(value, SideOutput):
            raise GraphError(
                f"{where}: self.{name} is a SideOutput made by an instance. Side outputs are "
                "declared in the body of the class, where they are known before the job runs: "
                f"class {type(function).__name__}: {name} = {value!r}."
            )
    sides = sides_of(function)
    for side in sides:
        if hasattr(_base_class(function), side.name):
            raise GraphError(
                f"{where}: {side.name} is a SideOutput, in the place of the method "
                f"{side.name}(...) of {_base(function)}. Call it another name."
            )
    return sides


def asked_about(
    states: tuple[StateInfo, ...], where: str, *, queryable: bool
) -> tuple[StateInfo, ...]:
    """The states of an operator; with ``queryable=False`` nobody is told what they hold."""
    if checked_queryable(queryable, where):
        return states
    return tuple(replace(info, queryable=False) for info in states)


def is_async(function: Any) -> bool:
    """Whether a call of a function gives a coroutine, and does not block."""
    return inspect.iscoroutinefunction(_body(function))


def _check_call(
    function: Callable[..., Any],
    arguments: int,
    where: str,
    expected: str,
    *,
    may_await: bool = False,
) -> None:
    """Whether a function can be called with this many arguments, and gives its value at once."""
    body = _body(function)
    if inspect.isasyncgenfunction(body) or (is_async(function) and not may_await):
        instead = "an ordinary def, or call map_async(...)"
        if may_await:
            instead = "return instead of yield: it gives one row for each row"
        raise GraphError(f"{where}: {_name(function)} is async; write {instead}.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(*range(arguments))
    except TypeError as error:
        raise GraphError(
            f"{where}: {_name(function)}{signature} cannot be called with {arguments} "
            f"argument{'' if arguments == 1 else 's'}: {error}. Write {expected}."
        ) from error


def _body(function: Any) -> Any:
    """The function behind a callable object."""
    is_plain = inspect.isroutine(function) or isinstance(function, type | partial)
    return function if is_plain else type(function).__call__


def described(value: Any) -> str:
    """What was given in the place of something else."""
    return f"the class {value.__name__}" if isinstance(value, type) else repr(value)


def _fields(function: Any) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(function, "__dict__", {})
    return fields


def _is_class(function: Any, base: type) -> bool:
    return isinstance(function, type) and issubclass(function, base)


def _base(function: Any) -> str:
    return _base_class(function).__name__


def _base_class(function: Any) -> type:
    """The class of this package that a function is a subclass of."""
    cls = function if isinstance(function, type) else type(function)
    return next(base for base in cls.__mro__ if base.__module__ == Function.__module__)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _definition(cls: type, name: str) -> str:
    """How a method of a class is written; those that inputs name are written alike."""
    method = getattr(cls, name, None)
    parameters = ["self", "row", "ctx"] if method is None else inspect.signature(method).parameters
    return f"def {name}({', '.join(parameters)})"

"""Checks of what a job's author hands to a stream: functions, schemas, declared states.

Every mistake that can be seen without running anything is a ``GraphError`` that names the
operator and says what to write instead. ``where`` is the operator as messages name it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.functions import Function
from mainstay.errors import GraphError, SchemaError
from mainstay.schema import format_schema, to_schema, to_type
from mainstay.state.declaration import StateDeclaration, declarations_of
from mainstay.state.hashing import hash_columns
from mainstay.state.info import StateInfo

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


def check_callable(function: Any, where: str, *, rows: int = 1, may_yield: bool = False) -> None:
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
    if not may_yield and inspect.isgeneratorfunction(_body(function)):
        raise GraphError(
            f"{where}: {_name(function)} yields, but must return one value. Use flat_map(...) for "
            "any number of rows."
        )
    _check_call(function, rows, where, f"a function of {_COUNTS[rows]}")


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
    function: Any, cls: type[Function], methods: tuple[str, ...], where: str, hint: str
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
    for name in methods:
        if getattr(type(function), name) is getattr(cls, name):
            raise GraphError(
                f"{where}: class {_name(function)} has no method {name}. Write "
                f"def {name}{_parameters(getattr(cls, name))}: ..."
            )
    hooks = dict.fromkeys(methods, 2) | {"open": 1, "on_snapshot_complete": 1, "close": 0}
    for name, arguments in hooks.items():
        expected = f"def {name}{_parameters(getattr(cls, name))}"
        _check_call(getattr(function, name), arguments, where, expected)


def checked_states(function: Any, where: str, *, keyed_allowed: bool) -> tuple[StateInfo, ...]:
    """The states that a function declares, if its stream can have them."""
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
    return states


def _check_call(function: Callable[..., Any], arguments: int, where: str, expected: str) -> None:
    """Whether a function can be called with this many arguments, and gives its value at once."""
    body = _body(function)
    if inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body):
        raise GraphError(f"{where}: {_name(function)} is async; write an ordinary def.")
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
    cls = function if isinstance(function, type) else type(function)
    return next(base.__name__ for base in cls.__mro__ if base.__module__ == Function.__module__)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _parameters(method: Callable[..., Any]) -> str:
    return f"({', '.join(inspect.signature(method).parameters)})"

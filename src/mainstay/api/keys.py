"""The key of a stream: some of its columns, an expression of them, or a function of the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.api.checks import check_callable, checked_key_type
from mainstay.api.expressions import Column, refuse_pyspark
from mainstay.api.graph import column_number
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.runtime.spec import KeySpec
from mainstay.state.values import ValueType

HIDDEN_KEY = "__key"

Migrate = Callable[[Any], Any] | None
"""Turns a key that a snapshot holds in another type into one of this type."""


@dataclass(frozen=True, slots=True)
class ChosenKey:
    """A key, and what adds it where it is not there: ``node``, which makes rows of ``carried``."""

    spec: KeySpec
    carried: pa.Schema
    node: nodes.Node | None = None


def chosen_key(
    schema: pa.Schema, columns: tuple[Any, ...], where: str, *, migrate: Migrate
) -> ChosenKey:
    """The key that the arguments of ``key_by`` stand for."""
    columns = tuple(_plain(column, schema, where) for column in columns)
    if isinstance(columns[0], Column):
        return _by_expression(schema, columns, where, migrate)
    if callable(columns[0]):
        return _by_function(schema, columns, where, migrate)
    return _by_columns(schema, columns, where, migrate)


def _by_columns(
    schema: pa.Schema, columns: tuple[Any, ...], where: str, migrate: Migrate
) -> ChosenKey:
    numbers = tuple(column_number(schema, column, where) for column in columns)
    if len(set(numbers)) < len(numbers):
        raise GraphError(f"{where}: a column is named twice in {columns}.")
    # Whether a column may be null is no part of a key's type, which a restore compares.
    fields = [pa.field(schema.names[n], schema.types[n]) for n in numbers]
    arrow = checked_key_type(fields[0].type if len(fields) == 1 else pa.struct(fields), where)
    return ChosenKey(KeySpec(numbers, ValueType.of(arrow), columns, migrate=migrate), schema)


def _by_function(
    schema: pa.Schema, arguments: tuple[Any, ...], where: str, migrate: Migrate
) -> ChosenKey:
    if len(arguments) != 2:
        raise GraphError(
            f"{where}: a key function needs the type of the key, as in "
            'key_by(lambda row: row.name[0], "string").'
        )
    function, declared = arguments
    check_callable(function, where)
    field = _hidden(schema, checked_key_type(declared, where))
    return _added(schema, nodes.KeyByFunction(function, field), field, migrate)


def _by_expression(
    schema: pa.Schema, columns: tuple[Any, ...], where: str, migrate: Migrate
) -> ChosenKey:
    if len(columns) > 1:
        raise GraphError(
            f"{where}: {columns[0]!r} is an expression, and a key is one expression or some "
            "columns. Make it a column with with_columns(...) first, or use a key function: "
            'key_by(lambda row: (row.a, row.b % 10), "struct<a:string,b:long>").'
        )
    expression, arrow = columns[0].bound(schema, where)
    field = _hidden(schema, checked_key_type(arrow, where))
    return _added(schema, nodes.KeyByExpression(expression, field), field, migrate)


def _added(schema: pa.Schema, node: nodes.Node, field: pa.Field, migrate: Migrate) -> ChosenKey:
    """Keyed by a column that an operator adds and rows do not show."""
    spec = KeySpec((len(schema),), ValueType.of(field.type), (field.name,), True, migrate)
    return ChosenKey(spec, schema.append(field), node)


def _hidden(schema: pa.Schema, type: pa.DataType) -> pa.Field:
    """The column of a key under a name that no other column has."""
    name = HIDDEN_KEY
    while name in schema.names:
        name += "_"
    return pa.field(name, type)


def _plain(column: Any, schema: pa.Schema, where: str) -> Any:
    """The name of a column that is given as an expression; anything else as it is."""
    refuse_pyspark(column, where)
    if not isinstance(column, Column) or column.name is None:
        return column
    is_field = "." in column.name and column.name not in schema.names
    return column if is_field else column.name

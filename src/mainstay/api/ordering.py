"""What rows are put in order by: a column, or several of which the first says most.

``by="price"`` and ``by=["price", ms.col("at").asc()]``. A name by itself has the direction of the
call: greatest first, unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from mainstay.api.checks import described
from mainstay.api.expressions import Column, Order, refuse_pyspark
from mainstay.api.graph import column_number
from mainstay.errors import GraphError
from mainstay.schema import format_type
from mainstay.state.ordering import By

OrderedBy: TypeAlias = str | Column | Order | Sequence[str | Column | Order]
"""A column, or a list of them."""


def ordered_by(schema: pa.Schema, given: Any, ascending: Any, where: str) -> tuple[By, ...]:
    """The columns of an order, checked against those of a stream."""
    if not isinstance(ascending, bool):
        raise GraphError(
            f"{where}: ascending={ascending!r} must be True or False. Directions of their own are "
            'said by column: by=["price", ms.col("at").asc()].'
        )
    return tuple(
        By(_number(schema, name, where), is_ascending)
        for name, is_ascending in named_order(given, ascending, where)
    )


def named_order(given: Any, ascending: bool, where: str) -> tuple[tuple[str, bool], ...]:
    """The columns of an order by name, each with whether its least value comes first."""
    listed = list(given) if isinstance(given, list | tuple) else [given]
    if not listed:
        raise GraphError(f'{where}: by=[] names no column. Write by=["price", "at"].')
    order = tuple(_named(each, ascending, where) for each in listed)
    names = [name for name, _ in order]
    if len(set(names)) < len(names):
        raise GraphError(f"{where}: a column is named twice in by={names!r}.")
    return order


def _named(given: Any, ascending: bool, where: str) -> tuple[str, bool]:
    refuse_pyspark(given, where)
    column = given.column if isinstance(given, Order) else given
    name = column.name if isinstance(column, Column) else column
    if isinstance(column, Column) and name is None:
        raise GraphError(
            f"{where}: by={column!r} is an expression; rows are put in order by columns. Make it "
            "one with with_columns(...) before."
        )
    if not isinstance(name, str):
        raise GraphError(
            f"{where}: by={described(given)} is no column. Write its name, or a list: "
            'by=["price", ms.col("at").asc()].'
        )
    return name, given.is_ascending if isinstance(given, Order) else ascending


def _number(schema: pa.Schema, name: str, where: str) -> int:
    if name.startswith("-") and name[1:] in schema.names:
        raise GraphError(
            f"{where}: there is no column {name!r}. For the other direction write "
            f'ms.col("{name[1:]}").asc() for the least first, or desc() for the greatest.'
        )
    number = column_number(schema, name, where)
    found = schema.field(number).type
    if pa.types.is_nested(found):
        raise GraphError(
            f"{where}: by={name!r} is of type {format_type(found)}, whose values have no order. "
            "Name a column of numbers, decimals, dates, timestamps, strings or booleans."
        )
    return number

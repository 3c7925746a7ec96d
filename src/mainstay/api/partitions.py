"""Partitions that a job's author chooses: by a column, an expression or a function of the row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.api.checks import check_callable
from mainstay.api.expressions import Column, refuse_pyspark
from mainstay.api.graph import column_number
from mainstay.errors import GraphError
from mainstay.runtime.choosing import (
    Chooser,
    ColumnChooser,
    ExpressionChooser,
    FunctionChooser,
)
from mainstay.schema import format_type


def chosen_by(schema: pa.Schema, by: Any, where: str) -> Chooser:
    """What the argument of ``partition_by`` stands for."""
    refuse_pyspark(by, where)
    if isinstance(by, Column):
        expression, given = by.bound(schema, where)
        _check_whole(given, repr(by), where)
        return ExpressionChooser(expression, repr(by))
    if callable(by):
        check_callable(by, where)
        return FunctionChooser(by, schema)
    number = column_number(schema, by, where)
    _check_whole(schema.types[number], repr(by), where)
    return ColumnChooser(number, str(by))


def _check_whole(given: pa.DataType, by: str, where: str) -> None:
    if not pa.types.is_integer(given):
        raise GraphError(
            f"{where}: {by} is of type {format_type(given)}, and the number of a subtask is a "
            "whole one. Give a column of whole numbers, or a function of the row that gives one, "
            "such as lambda row: zlib.crc32(row.name.encode())."
        )

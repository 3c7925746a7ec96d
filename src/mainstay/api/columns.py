"""The columns of a stream chosen anew: some of them, under other names, or computed of others.

What comes of it is known when the program is written: which columns there are, of which types, and
which of them has the time of an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.event_time import told_times
from mainstay.api.expressions import Column, col, refuse_pyspark
from mainstay.api.graph import GraphBuilder, column_number
from mainstay.errors import GraphError, SchemaError
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.schema import format_schema, to_type
from mainstay.schema.evaluation import evaluated

Taken: TypeAlias = "int | pc.Expression"
"""A column as it is, by its number, or what an expression gives."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A column of the result, and where it comes from."""

    field: pa.Field
    taken: Taken


def selected(
    schema: pa.Schema, columns: Iterable[Any], named: Mapping[str, Any], where: str
) -> list[Chosen]:
    """The columns that ``select`` names, in that order."""
    chosen = [_by_its_name(column, schema, where) for column in columns]
    chosen += [_made(name, given, schema, where) for name, given in named.items()]
    if not chosen:
        raise GraphError(f'{where} needs at least one column, as in select("customer", "amount").')
    return chosen


def renamed(schema: pa.Schema, names: Any, more: Mapping[str, Any], where: str) -> list[Chosen]:
    """All columns, some under other names."""
    wanted = _mapping(names, more, where, 'rename({"old": "new"})')
    if not wanted:
        raise GraphError(f'{where} needs the columns to rename, as in rename(old="new").')
    new = {column_number(schema, old, where): _checked(name, where) for old, name in wanted.items()}
    return [
        Chosen(field.with_name(new.get(number, field.name)), number)
        for number, field in enumerate(schema)
    ]


def dropped(schema: pa.Schema, columns: Iterable[Any], where: str) -> list[Chosen]:
    """All columns but these."""
    gone = {column_number(schema, _plain(column), where) for column in columns}
    if not gone:
        raise GraphError(f'{where} needs the columns to leave out, as in drop("extra").')
    if len(gone) == len(schema):
        raise GraphError(f"{where} leaves no column. Keep one: rows without columns are nothing.")
    return [Chosen(field, n) for n, field in enumerate(schema) if n not in gone]


def extended(schema: pa.Schema, columns: Any, more: Mapping[str, Any], where: str) -> list[Chosen]:
    """All columns and some more; one of the same name is replaced, in its place."""
    wanted = _mapping(columns, more, where, 'with_columns({"total": ms.col("price") * 2})')
    if not wanted:
        raise GraphError(
            f'{where} needs columns to add, as in with_columns(total=ms.col("price") * 2).'
        )
    # All are made of the rows as they come, and not of each other.
    made = {name: _made(name, given, schema, where) for name, given in wanted.items()}
    kept = [made.pop(field.name, Chosen(field, n)) for n, field in enumerate(schema)]
    return [*kept, *made.values()]


def select_node(
    builder: GraphBuilder,
    origins: tuple[Input, ...],
    before: pa.Schema,
    chosen: list[Chosen],
    where: str,
) -> tuple[nodes.Select, pa.Schema]:
    """What an operator is to do that gives these columns, and their schema."""
    names = [each.field.name for each in chosen]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise GraphError(
            f"{where}: there would be several columns {', '.join(map(repr, twice))}. Give each a "
            "name of its own."
        )
    times = _times(told_times(builder, origins), before.names, chosen)
    node = nodes.Select(tuple(each.taken for each in chosen), tuple(times.items()))
    return node, pa.schema([each.field for each in chosen])


def _times(
    told: Mapping[str, int | None], before: list[str], chosen: list[Chosen]
) -> dict[str, int | None]:
    """The columns that have the time of an event, under the names that they have now.

    A column that is computed stays the time if it has the name of it, as a function's would.
    """
    found: dict[str, int | None] = {}
    for name, shift in told.items():
        now = [e.field.name for e in chosen if isinstance(e.taken, int) and before[e.taken] == name]
        computed = [e for e in chosen if e.field.name == name and not isinstance(e.taken, int)]
        if now:
            found |= dict.fromkeys(now, shift)
        else:
            found.setdefault(name, shift if computed else None)
    return found


def _by_its_name(column: Any, schema: pa.Schema, where: str) -> Chosen:
    """A column that is given without a name: one of the stream, or a field of a struct."""
    name = _plain(column)
    if isinstance(name, str):
        if name == "*":
            raise GraphError(f'{where}: "*" is no column. with_columns(...) keeps all, and adds.')
        if name in schema.names or "." not in name:
            number = column_number(schema, name, where)
            return Chosen(schema.field(number), number)
        return _made(name.rpartition(".")[2], column, schema, where)
    refuse_pyspark(column, where)
    if isinstance(column, Column | pc.Expression):
        raise GraphError(f"{where}: {column!r} needs a name. Write select(..., name=...).")
    raise GraphError(
        f"{where}: {column!r} is no column. Write each by its name, and by itself: "
        'select("customer", "amount").'
    )


def _made(name: str, given: Any, schema: pa.Schema, where: str) -> Chosen:
    """A column under a name: another one, or what an expression gives."""
    place = f"{where}, column {_checked(name, where)!r}"
    plain = _plain(given)
    if isinstance(plain, str) and (plain in schema.names or "." not in plain):
        number = column_number(schema, plain, place)
        return Chosen(schema.field(number).with_name(name), number)
    if isinstance(given, str):
        given = col(given)
    expression, found = _bound(given, schema, place)
    try:
        arrow = to_type(found)
    except SchemaError as error:
        raise GraphError(f"{place}: {error}.") from error
    return Chosen(pa.field(name, arrow), expression if arrow == found else expression.cast(arrow))


def _bound(given: Any, schema: pa.Schema, where: str) -> tuple[Any, pa.DataType]:
    refuse_pyspark(given, where)
    if isinstance(given, Column):
        return given.bound(schema, where)
    if not isinstance(given, pc.Expression):
        what = (
            "a function is for map(...) and map_batches(...)"
            if callable(given)
            else f"write ms.lit({given!r}) for a value that is the same in every row"
        )
        raise GraphError(
            f"{where}: {given!r} is neither a column nor an expression of columns such as "
            f'ms.col("price") * 2; {what}.'
        )
    try:
        return given, evaluated(given, schema.empty_table()).type
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise GraphError(
            f"{where}: {given} cannot be evaluated on rows of {format_schema(schema)!r}: {error}."
        ) from error


def _plain(column: Any) -> Any:
    """The name of a column that is given as an expression; anything else as it is."""
    return column.name if isinstance(column, Column) and column.name is not None else column


def _mapping(given: Any, more: Mapping[str, Any], where: str, example: str) -> dict[str, Any]:
    if given is None:
        return dict(more)
    if not isinstance(given, Mapping):
        raise GraphError(f"{where} takes names as keywords or as a mapping, as in {example}.")
    if both := [name for name in given if name in more]:
        raise GraphError(f"{where}: {', '.join(map(repr, both))} is given twice.")
    return {**given, **more}


def _checked(name: Any, where: str) -> str:
    if not isinstance(name, str) or not name:
        raise GraphError(f"{where}: {name!r} is no name for a column; it must be a text.")
    return name

"""Which column of a stream has the time of its events, as far as the program says so.

A source names it with its ``Watermark``. It stays the time of the rows for as long as a column of
that name and of type timestamp is among them; ``rename`` and ``select`` say what it is called then.
The results of windows have the time of their window's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa

from mainstay.api.graph import GraphBuilder, column_number
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.schema import format_type
from mainstay.spelling import one_of

WINDOW_START, WINDOW_END = "window_start", "window_end"
_Answer = TypeVar("_Answer")


def time_column(
    builder: GraphBuilder, origins: Iterable[Input], schema: pa.Schema, on: str | None, where: str
) -> tuple[int, int]:
    """The number of the column, and what is added to what it holds: the end of a window is no
    part of it, so its results have a time just before."""
    origins = tuple(origins)
    told = told_times(builder, origins)
    if on is None and not told:
        raise GraphError(
            f"{where} does not know which column has the time of an event: no source before it has "
            f"a watermark. Say so at the source: {_watermark(builder, origins)}."
        )
    if on is None:
        on = _only(told, schema, where)
    number = column_number(schema, on, where)
    found = schema.field(number).type
    if not pa.types.is_timestamp(found):
        raise GraphError(
            f"{where}: on={on!r} is of type {format_type(found)}; the time of an event is a "
            "timestamp. Name a column of that type, or make one with with_columns(...) before."
        )
    return number, told.get(on) or 0


def _only(told: Mapping[str, int | None], schema: pa.Schema, where: str) -> str:
    """The one column that is told and still there."""
    there = [name for name, shift in told.items() if shift is not None and _is_time(schema, name)]
    if len(there) == 1:
        return there[0]
    times = [name for name in schema.names if _is_time(schema, name)]
    if there:
        why = f"the streams before have their time in {' and '.join(map(repr, there))}"
    else:
        why = f"the time {' or '.join(map(repr, told))} of its source is no longer in the stream"
    choices = (
        f"Choose one of its timestamps: on={one_of(times)}."
        if times
        else "It has no timestamp: keep the one of the source."
    )
    raise GraphError(
        f"{where} does not know which column has the time of an event: {why}. {choices}"
    )


def _watermark(builder: GraphBuilder, origins: Iterable[Input]) -> str:
    """How a source that has none is given one, of the timestamps that the sources have."""
    emitted = _nearest(builder, origins, _emitted_by_source)
    times = dict.fromkeys(name for each in emitted for name in each.names if _is_time(each, name))
    choices = " or ".join(f'ms.Watermark("{name}")' for name in times)
    found = choices or 'ms.Watermark("at"), with a column of type timestamp'
    return f"watermark={found}"


def _emitted_by_source(operator: LogicalOperator) -> pa.Schema | None:
    return operator.emits() if isinstance(operator.node, nodes.Source) else None


def _is_time(schema: pa.Schema, name: str) -> bool:
    number = schema.get_field_index(name)
    return number >= 0 and bool(pa.types.is_timestamp(schema.field(number).type))


def told_times(builder: GraphBuilder, origins: Iterable[Input]) -> dict[str, int | None]:
    """What the nearest operators that know say the column is, with what is added to what it holds;
    None for one that is no longer among the columns."""
    found: dict[str, int | None] = {}
    for told in _nearest(builder, origins, _told_by):
        # A column that is gone from one stream may be there in another.
        found |= {n: s for n, s in told.items() if s is not None or n not in found}
    return found


def _nearest(
    builder: GraphBuilder,
    origins: Iterable[Input],
    asked: Callable[[LogicalOperator], _Answer | None],
) -> Iterator[_Answer]:
    """The answers of the operators that a stream comes from, as far as the first that has one."""
    seen: set[int] = set()
    left = [origin.upstream for origin in reversed(tuple(origins))]
    while left:
        id = left.pop()
        if id in seen:
            continue
        seen.add(id)
        operator = builder.operators[id]
        answer = asked(operator)
        if answer is None:
            left += [given.upstream for given in operator.inputs]
        else:
            yield answer


def _told_by(operator: LogicalOperator) -> Mapping[str, int | None] | None:
    node = operator.node
    if isinstance(node, nodes.Select):
        return dict(node.times)
    if isinstance(node, nodes.Source) and node.time is not None:
        name = str(operator.emits().field(node.time.column).name)
        return {name: 0}
    if isinstance(node, nodes.UntilJoin):
        return {node.time_column: 0}
    # What else says a column are windows, whatever the rows before them called theirs.
    of_window: str | None = getattr(node, "time_column", None)
    return None if of_window is None else {of_window: -1}

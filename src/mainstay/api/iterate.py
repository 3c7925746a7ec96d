"""Loops: rows that go back to where they came from.

::

    labels = edges.iterate(
        lambda head: spread(head),          # returns what goes back, and what goes on
        uid="components",
    )
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.api.checks import check_callable
from mainstay.api.graph import GraphBuilder, column_number
from mainstay.api.settings import Settings
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.quantities import whole_number
from mainstay.runtime.operators.loop import MEMORY_BYTES
from mainstay.runtime.own_states import FEEDBACK
from mainstay.schema import format_schema

if TYPE_CHECKING:
    from mainstay.api.stream import Stream


def iterate(
    stream: Stream,
    body: Callable[[Stream], tuple[Stream, Stream]],
    settings: Settings,
    *,
    round_column: str | None,
    max_rounds: int | None,
    memory: int | None,
) -> Stream:
    """Build a loop around ``body``; see ``Stream.iterate``."""
    where = stream._named("iterate", settings)
    check_callable(body, where)
    if stream.key is not None:
        raise GraphError(f"{where}: call iterate(...) before key_by(...), and key_by inside it.")
    column = _round_column(stream.schema, round_column, max_rounds, where)
    memory_bytes = MEMORY_BYTES if memory is None else whole_number(memory, "memory", where=where)
    builder = stream._builder
    head = stream._add(
        "iterate",
        nodes.LoopHead(memory_bytes),
        stream.schema,
        settings,
        states=(FEEDBACK,),
    )
    feedback, output = _body_of(body, stream._emitted_by(head), where)
    _check_feedback(builder, feedback, head.id, stream.schema, where)
    builder.add(
        "feedback",
        nodes.LoopTail(head.uid, column, max_rounds),
        None,
        {"uid": f"{head.uid}-feedback"},
        inputs=feedback._inputs(),
        beside=head.id,
    )
    return output


def _body_of(body: Callable[[Stream], Any], head: Stream, where: str) -> tuple[Stream, Stream]:
    from mainstay.api.stream import Stream

    made = body(head)
    is_pair = isinstance(made, tuple) and len(made) == 2
    if not is_pair or not all(isinstance(each, Stream) for each in made):
        raise GraphError(
            f"{where}: the body of the loop must return two streams, (feedback, output), not "
            f"{made!r}."
        )
    feedback, output = made
    return feedback, output


def _check_feedback(
    builder: GraphBuilder, feedback: Stream, head: int, schema: pa.Schema, where: str
) -> None:
    if feedback.key is not None:
        raise GraphError(f"{where}: what goes back is a keyed stream; leave its key_by(...) out.")
    if feedback.schema != schema:
        raise GraphError(
            f"{where}: what goes back has the schema {format_schema(feedback.schema)!r}, the loop "
            f"is of {format_schema(schema)!r}. Make them equal with map(...)."
        )
    if not any(_comes_from(builder, each.upstream, head) for each in feedback._origins):
        raise GraphError(
            f"{where}: what goes back does not come from the loop. Derive it from the stream that "
            "the body is given."
        )


def _comes_from(builder: GraphBuilder, operator: int, head: int) -> bool:
    if operator <= head:
        return operator == head
    inputs = builder.operators[operator].inputs
    return any(_comes_from(builder, given.upstream, head) for given in inputs)


def _round_column(
    schema: pa.Schema, name: str | None, max_rounds: int | None, where: str
) -> int | None:
    if max_rounds is not None:
        whole_number(max_rounds, "max_rounds", where=where)
        if name is None:
            raise GraphError(
                f"{where}: max_rounds={max_rounds} needs a column to count rounds in: "
                'iterate(..., round_column="round").'
            )
    if name is None:
        return None
    number = column_number(schema, name, where)
    if not pa.types.is_integer(schema.field(number).type):
        raise GraphError(
            f"{where}: rounds are counted in column {name!r}, which is of type "
            f"{schema.field(number).type} and not a whole number."
        )
    return number

"""Joins of two keyed streams, as a job's author asks for them.

See :meth:`mainstay.KeyedStream.join`. What is wrong is a ``GraphError`` that names the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa

from mainstay.api.checks import asked_about, described
from mainstay.api.connecting import key_types
from mainstay.api.event_time import WINDOW_END, WINDOW_START, time_column
from mainstay.api.expressions import Column
from mainstay.api.graph import column_number
from mainstay.api.intervals import Interval
from mainstay.api.settings import Settings
from mainstay.api.stream import Stream
from mainstay.api.windows import FIXED, microseconds
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.runtime.joins import KEY, LEFT, RIGHT, How, JoinShape, JoinSide
from mainstay.runtime.operators.joins.as_of import newest_state
from mainstay.runtime.own_states import ENDED, FIRED, MADE_FOR, PANES
from mainstay.runtime.side_names import LATE_LEFT, LATE_RIGHT
from mainstay.runtime.spec import Forward, HashByKey, SideSpec
from mainstay.schema import format_type
from mainstay.spelling import did_you_mean, one_of
from mainstay.state.info import StateInfo

if TYPE_CHECKING:
    from mainstay.api.keyed_stream import KeyedStream

On = str | tuple[str, str] | None


@with_own_frames
class JoinedStream(Stream):
    """The rows of a join. Those that came too late for it are side outputs."""

    @property
    def late_left(self) -> Stream:
        """The rows of the left side that came too late, or have no time."""
        return self.side(LATE_LEFT)

    @property
    def late_right(self) -> Stream:
        """The rows of the right side that came too late, or have no time."""
        return self.side(LATE_RIGHT)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What ``join`` was called with."""

    how: How
    within: Any = None
    window: Any = None
    as_of: Any = None
    max_age: Any = None
    keep: Any = None
    ttl: Any = None
    on: Any = None
    suffix: str | None = None


HOWS: dict[str, tuple[str, ...]] = {
    "within": get_args(How),
    "until": ("inner", "left", "semi", "anti"),
    "window": get_args(How),
    "as_of": ("inner", "left"),
    "": ("inner", "semi"),
}
"""By what a join goes by: how it may join."""


def join(
    left: KeyedStream,
    right: Any,
    request: JoinRequest,
    settings: Settings,
    *,
    queryable: bool,
) -> JoinedStream:
    """Add a join to the graph."""
    where = left._named("join", settings)
    kind = _checked_kind(request, where)
    _check_right(left, right, where)
    sides = _sides(left, right, request, kind, where)
    shape = _shape(left, right, sides, request, kind, where)
    node, states = _node(shape, request, kind, where)
    late = () if kind == "" else (_late(LATE_LEFT, left), _late(LATE_RIGHT, right))
    hashed = HashByKey(sides[RIGHT].key)
    inputs = [replace(each, partitioning=hashed) for each in right._inputs(1)]
    operator = left._builder.add(
        "join",
        node,
        shape.schema,
        settings,
        inputs=(*left._inputs(0), *inputs),
        states=(*asked_about(states, where, queryable=queryable), *_own(kind)),
        key=left.key,
        sides=late,
    )
    return JoinedStream(left._builder, shape.schema, (Input(operator.id, Forward()),))


def _late(name: str, stream: Stream) -> SideSpec:
    return SideSpec(name, stream.schema)


def _own(kind: str) -> tuple[StateInfo, ...]:
    """States of the runtime that an operator of this kind has."""
    timed = {
        "within": (FIRED, ENDED, PANES),
        "until": (FIRED, ENDED, PANES),
        "window": (FIRED, ENDED),
        "as_of": (FIRED, ENDED),
    }
    return (*timed.get(kind, ()), MADE_FOR)


# ---------------------------------------------------------------- checks


def _checked_kind(request: JoinRequest, where: str) -> str:
    """What the join goes by: ``within``, ``window``, ``as_of``, or nothing but the key."""
    kinds = [name for name in ("within", "window", "as_of") if getattr(request, name) is not None]
    if len(kinds) > 1:
        raise GraphError(
            f"{where}: {' and '.join(kinds)} are different joins. Choose one: within= for rows "
            "near each other in time, window= for rows of one window, as_of= for the newest row."
        )
    kind = kinds[0] if kinds else ""
    if _end_of(request) is not None:
        kind = "until"
    if request.how not in HOWS[kind]:
        _refuse_how(request.how, kind, where)
    _check_keep(request, kind, where)
    if request.suffix is not None and not isinstance(request.suffix, str):
        raise GraphError(
            f'{where}: suffix={described(request.suffix)} must be a text: suffix="_right".'
        )
    if request.as_of is not None and request.as_of != "left":
        raise GraphError(
            f'{where}: as_of={request.as_of!r} must be "left": each left row is joined with the '
            "newest right one. Swap the streams for the other way round."
        )
    if request.max_age is not None and kind != "as_of":
        raise GraphError(f'{where}: max_age= belongs to as_of="left". Leave it out.')
    return kind


def _refuse_how(how: Any, kind: str, where: str) -> None:
    known = get_args(How)
    if how not in known:
        raise GraphError(
            f"{where}: how={how!r} is unknown; choose one of {', '.join(known)}."
            f"{did_you_mean(how, known)}"
        )
    if kind == "until":
        raise GraphError(
            f"{where}: how={how!r} gives right rows alone, and the time of the results is a column "
            f"of the left ones. Choose one of {one_of(HOWS[kind])}."
        )
    if kind:
        raise GraphError(
            f"{where}: how={how!r} is not for as_of=; a left row waits for the newest right one, "
            f"so choose {one_of(HOWS[kind])}."
        )
    raise GraphError(
        f"{where}: how={how!r} would have to say that a row matches nothing, which nobody knows "
        "while rows may still come. Say until when they may match: "
        'within=ms.interval("-10s", "0s") or window=ms.tumbling("10s"). Without, choose '
        f"{one_of(HOWS[''])}."
    )


def _end_of(request: JoinRequest) -> str | None:
    """The column that says until when a left row matches, where one does."""
    within = request.within
    column = within.upper if isinstance(within, Interval) else None
    return column.name if isinstance(column, Column) else None


def _argument(kind: str) -> str:
    return "within" if kind == "until" else kind


def _check_keep(request: JoinRequest, kind: str, where: str) -> None:
    given = [name for name in ("keep", "ttl") if getattr(request, name) is not None]
    if kind and given:
        raise GraphError(
            f"{where}: {given[0]}= is for joins by the key alone; with {_argument(kind)}= event "
            "time says how long rows are kept. Leave it out."
        )
    if kind:
        return
    if request.on is not None:
        raise GraphError(
            f"{where}: on= names times, and a join by the key alone goes by none. Leave it out, or "
            'add within=ms.interval("-10s", "0s").'
        )
    if request.keep not in (None, "forever"):
        raise GraphError(
            f'{where}: keep={request.keep!r} is unknown; it is "forever". For some time, write '
            'ttl="1 day".'
        )
    if len(given) == 2:
        raise GraphError(
            f'{where}: keep="forever" and ttl={request.ttl!r} contradict each other. Leave one out.'
        )
    if not given:
        raise GraphError(
            f"{where} keeps all rows of both sides, because any row may still match. Say how near "
            'they are in time, within=ms.interval("-10s", "0s"), or how long they are kept: '
            'ttl="1 day" or keep="forever".'
        )


def _check_right(left: KeyedStream, right: Any, where: str) -> None:
    if not isinstance(right, Stream):
        raise GraphError(f"{where} needs a keyed stream, not {described(right)}.")
    left._check_beside(right, "join")
    if right.key is None:
        raise GraphError(
            f"{where}: the right side ({right._where()}) has no key. Write join(right.key_by(...))."
        )
    if key_types(left.key) != key_types(right.key):
        raise GraphError(
            f"{where} of streams with different key types: {left._where()} is keyed by "
            f"{left.key.type.ddl}, {right._where()} by {right.key.type.ddl}. Key both by the same "
            "types."
        )


# ---------------------------------------------------------------- what it takes and gives


def _sides(
    left: KeyedStream, right: KeyedStream, request: JoinRequest, kind: str, where: str
) -> tuple[JoinSide, JoinSide]:
    """Both sides, with the key of the right one in the names of the left."""
    on = _on(request.on, where)
    times: list[tuple[int | None, int]] = [(None, 0), (None, 0)]
    if kind:
        streams = zip((left, right), on, ("left side", "right side"), strict=True)
        times = [
            (*time_column(each._builder, each._origins, each.schema, column, f"{where}, {name}"),)
            for each, column, name in streams
        ]
    is_known_by_key = request.how in ("semi", "anti")
    end = _end_of(request)
    column = None if end is None else _end_column(left.schema, end, where)
    return (
        _side(left, times[LEFT], only_time=False, end=column),
        _side(right, times[RIGHT], only_time=is_known_by_key, key=left),
    )


def _end_column(schema: pa.Schema, name: str, where: str) -> int:
    number = column_number(schema, name, f"{where}, left side")
    found = schema.field(number).type
    if not pa.types.is_timestamp(found):
        raise GraphError(
            f"{where}: the interval ends at {name!r}, which is of type {format_type(found)}; it "
            "must be a timestamp. Make one with with_columns(...) before."
        )
    return number


def _on(on: Any, where: str) -> tuple[str | None, str | None]:
    if on is None or isinstance(on, str):
        return on, on
    if isinstance(on, tuple | list) and len(on) == 2:
        return on[0], on[1]
    raise GraphError(
        f'{where}: on={on!r} must be the column with the time, or one for each side: on=("at", '
        '"opened").'
    )


def _side(
    stream: KeyedStream,
    time: tuple[int | None, int],
    *,
    only_time: bool,
    key: KeyedStream | None = None,
    end: int | None = None,
) -> JoinSide:
    """A side. The columns of the key are not kept with a row: its state is under that key."""
    number, shift_us = time
    visible = list(range(len(stream.schema)))
    kept = [n for n in visible if n not in stream.key.columns or n in (number, end)]
    if only_time:
        kept = visible[:1] if number is None else [number]
    of = stream.key if key is None else replace(stream.key, type=key.key.type)
    return JoinSide(of, stream._carried, tuple(kept or visible[:1]), number, shift_us, end)


def _shape(
    left: KeyedStream,
    right: KeyedStream,
    sides: tuple[JoinSide, JoinSide],
    request: JoinRequest,
    kind: str,
    where: str,
) -> JoinShape:
    columns = _columns(left, sides[LEFT], LEFT)
    fields = [left.schema.field(n) for n in range(len(left.schema))]
    if request.how not in ("semi", "anti"):
        of_right = _columns(right, sides[RIGHT], RIGHT)
        shown = [n for n in range(len(right.schema)) if left.key.hidden or of_right[n][0] != KEY]
        if not left.key.hidden and not right.key.hidden:
            shown = [n for n in shown if n not in right.key.columns]
        fields += _renamed([right.schema.field(n) for n in shown], fields, request.suffix, where)
        columns += [of_right[n] for n in shown]
    if kind == "window":
        bounds = [pa.field(name, pa.timestamp("us", "UTC")) for name in (WINDOW_START, WINDOW_END)]
        fields += _renamed(bounds, fields, None, where)
    return JoinShape(request.how, sides, tuple(columns), pa.schema(fields))


def _columns(stream: KeyedStream, side: JoinSide, number: int) -> list[tuple[int, int]]:
    """Where each visible column of a side comes from."""
    key = () if stream.key.hidden else stream.key.columns
    return [
        (KEY, key.index(n)) if n in key else (number, side.kept.index(n) if n in side.kept else 0)
        for n in range(len(stream.schema))
    ]


_RENAME = (
    'Rename one with rename(...), or give those of the right side another end: suffix="_right".'
)


def _renamed(
    added: Sequence[pa.Field], fields: Sequence[pa.Field], suffix: str | None, where: str
) -> list[pa.Field]:
    taken = {field.name for field in fields}
    found = []
    for field in added:
        name = f"{field.name}{suffix}" if suffix and field.name in taken else field.name
        if name in taken:
            remedy = "Choose another suffix." if suffix else _RENAME
            raise GraphError(f"{where}: both sides have a column {name!r}. {remedy}")
        taken.add(name)
        found.append(field.with_name(name))
    return found


def _node(
    shape: JoinShape, request: JoinRequest, kind: str, where: str
) -> tuple[nodes.Join, tuple[StateInfo, ...]]:
    both = (LEFT, RIGHT)
    flagged = tuple(shape.matched_state(side) for side in both if shape.is_flagged(side))
    if kind == "until":
        states = (*(shape.rows_state(side) for side in both), *flagged)
        return nodes.UntilJoin(shape, request.within.lower_us()), states
    if kind == "within":
        if not isinstance(request.within, Interval):
            raise GraphError(
                f"{where}: within={described(request.within)} must be an interval: "
                'within=ms.interval("-10s", "0s").'
            )
        states = (*(shape.rows_state(side) for side in both), *flagged)
        return nodes.IntervalJoin(shape, request.within.fixed()), states
    if kind == "":
        ttl_us = (
            None
            if request.ttl is None
            else microseconds(request.ttl, f"{where}: ttl", positive=True)
        )
        states = (*(shape.rows_state(side) for side in both), *flagged)
        return nodes.RegularJoin(shape, ttl_us), states
    plain = tuple(shape.plain_state(side) for side in both)
    if kind == "window":
        if not isinstance(request.window, FIXED) or request.window.time != "event":
            raise GraphError(
                f"{where}: window={described(request.window)} must be one with fixed bounds in "
                'event time: ms.tumbling("10s"), ms.sliding(...) or ms.cumulating(...).'
            )
        return nodes.WindowJoin(shape, request.window.fixed()), plain
    if request.max_age is None:
        return nodes.AsOfJoin(shape, None), (*plain, newest_state(shape))
    max_age_us = microseconds(request.max_age, f"{where}: max_age", positive=True)
    return nodes.AsOfJoin(shape, max_age_us), plain

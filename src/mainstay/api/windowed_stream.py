"""Windowed streams: the rows of a key, or of a stream, within the bounds of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from mainstay.api.aggregates import HIDDEN_KEY_NAME, checked_aggregation, reduction_of
from mainstay.api.checks import (
    asked_about,
    check_callable,
    check_process,
    checked_schema,
    checked_states,
)
from mainstay.api.event_time import WINDOW_END, WINDOW_START, time_column
from mainstay.api.expressions import Column, lit
from mainstay.api.functions import WindowProcess
from mainstay.api.instead import OF_WINDOWS, Instead
from mainstay.api.ordering import OrderedBy, ordered_by
from mainstay.api.settings import Settings
from mainstay.api.window_fold import FoldRows
from mainstay.api.windows import FIXED, Duration, Rows, Session, Window, microseconds
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.quantities import seconds, whole_number
from mainstay.runtime.operators.count_window import ROWS, SLICES
from mainstay.runtime.operators.gaps import Gaps
from mainstay.runtime.operators.session import END, SESSIONS
from mainstay.runtime.operators.slicing import TIMESTAMP, RowTimes
from mainstay.runtime.operators.window import PANES, Emission
from mainstay.runtime.operators.window_results import (
    IS_FINAL,
    CallFunction,
    EmitRows,
    WindowResults,
)
from mainstay.runtime.operators.window_results import ROWS as KEPT
from mainstay.runtime.own_states import ENDED, FIRED, MADE_FOR
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import KeySpec, SideSpec
from mainstay.schema import format_type
from mainstay.spelling import did_you_mean
from mainstay.state.aggregates import (
    Accumulator,
    Aggregate,
    Aggregation,
    Best,
    Output,
    aggregation_of,
)
from mainstay.state.info import StateInfo
from mainstay.state.kinds import SPANS
from mainstay.state.values import ValueType

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mainstay.api.stream import Stream

Windowing = nodes.WindowAggregate | nodes.SessionAggregate | nodes.CountAggregate
Emits = Literal["final", "update", "early"]
_NO_KEY = KeySpec((), TIMESTAMP, ())


@with_own_frames
class WindowedStream(Instead):
    """A stream divided into windows; what is computed of each is said by the method that follows.

    ``time`` is the number of the column with the time of an event, None in processing time;
    ``shift_us`` is added to what it holds.
    """

    _instead = OF_WINDOWS

    def __init__(
        self,
        stream: Stream,
        window: Window,
        *,
        on: str | None,
        lateness: Duration,
        emit: Emits,
        every: Duration | None,
    ) -> None:
        self._stream = stream
        self._is_of_all = False
        self.window = window
        where = stream._named("window")
        _check_emit(emit, every, where)
        self.emit = emit
        self.every_s = None if every is None else seconds(every, f"{where}: every", positive=True)
        self.lateness_us = microseconds(lateness, f"{where}: lateness")
        self.time: int | None = None
        self.shift_us = 0
        if isinstance(window, Rows):
            _refuse_time(where, "windows of a number of rows have no end in time", on, lateness)
        elif window.time == "processing":
            _refuse_time(where, "in processing time no row is late", on, lateness)
            if emit == "update":
                raise GraphError(
                    f'{where}: emit="update" is for rows that come late, and in processing time '
                    'none does. Leave it out, or write emit="early".'
                )
        else:
            self.time, self.shift_us = time_column(
                stream._builder, stream._origins, stream.schema, on, where
            )

    def aggregate(
        self,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        chain: bool | None = None,
        queryable: bool = True,
        **aggregates: Aggregate,
    ) -> Stream:
        """Aggregates of each key in each window: ``aggregate(total=ms.sum("amount"))``.

        Emits the columns of the key (``key`` where a function made it), ``window_start``,
        ``window_end``, and one for each aggregate; with ``emit="update"`` or ``"early"`` also
        ``is_final``, which is true in the last row of each key and window. A window without rows
        emits nothing. Without ``key_by`` there is one row for each window; rows are aggregated
        where they are, and one subtask puts the results together.

        ``first`` and ``last`` go by the order in which rows come, not by their time; in sliding and
        cumulating windows and merged sessions, slice by slice.
        """
        stream = self._stream
        settings = Settings(
            uid=uid, parallelism=parallelism, max_parallelism=max_parallelism, chain=chain
        )
        where = stream._named("aggregate", settings)
        stream._builder.check_settings(settings, where)
        self._check(where)
        if stream.key is None:
            return self._of_all("aggregate", aggregates, settings, queryable)
        checked_aggregation(aggregates, stream.schema, self._names(where), where)
        aggregation = aggregation_of(aggregates, stream.schema)
        return self._built("aggregate", aggregation, settings, queryable)

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        *,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """The rows of each key and window folded into one: ``function(reduced, row)`` returns a row
        with the columns of the stream.

        ``operator.add``, ``min`` and ``max`` are known, and applied to each column by itself, which
        keeps one row for each key and window; any other function needs all rows to be kept. Emits
        what :meth:`aggregate` does, with all columns but those of the key and the time.
        """
        stream = self._stream
        where = stream._named("reduce", settings)
        self._check(where)
        schema = stream.schema
        if self.time is not None:
            schema = schema.remove(self.time)
        known = reduction_of(function, schema, stream.key or _NO_KEY, where)
        if known is None:
            return self._folded(function, where, settings, queryable)
        if stream.key is None:
            return self._of_all("reduce", known, settings, queryable)
        checked_aggregation(known, stream.schema, self._names(where), where)
        aggregation = aggregation_of(known, stream.schema)
        return self._built("reduce", aggregation, settings, queryable)

    def process(
        self,
        function: WindowProcess,
        schema: Any = None,
        *,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A :class:`WindowProcess` function: rows out for all rows of a key in a window.

        All rows of open windows are kept. What can be said with aggregates costs much less.
        """
        stream = self._stream
        where = self._of_rows("process", settings)
        hint = "On windows, subclass WindowProcess."
        check_process(function, WindowProcess, ("process",), where, hint, arguments=3)
        if checked_states(function, where, keyed_allowed=True):
            raise GraphError(
                f"{where}: {type(function).__name__} declares state, and a window has none beside "
                "its rows. Keep it in a KeyedProcess behind the windows."
            )
        out = checked_schema(schema, where)
        key = stream.key
        assert key is not None

        def results(taken: pa.Schema) -> WindowResults:
            return CallFunction(function, taken, out, key.type, len(key.columns))

        aggregation = self._keeping_rows()
        return self._built("process", aggregation, settings, queryable, results)

    def top(
        self,
        count: int,
        by: OrderedBy,
        *,
        ascending: bool = False,
        ties: bool = False,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """The rows of each key and window that are greatest by a column, or least where
        ``ascending``: ``top(10, by="price")``. By several, each in its own direction:
        ``top(10, by=["price", ms.col("at").asc()])``.

        Emits whole rows, with ``window_start`` and ``window_end`` behind their columns, the best
        first. Of equal rows those that came first are taken; with ``ties`` all that are equal to
        the last one. Rows in which ``by``, or the first of several, is null are left out; NaN is
        above every number. No other rows are kept.
        """
        stream = self._stream
        where = self._of_rows("top", settings)
        whole_number(count, "count", where=where)
        order = ordered_by(stream.schema, by, ascending, where)
        for name in self._own_names:
            if name in stream.schema.names:
                raise GraphError(
                    f"{where}: the rows have a column {name!r}, and so have the results of "
                    "windows. Give it another name before window(...)."
                )

        def results(taken: pa.Schema) -> WindowResults:
            own = [taken.field(name) for name in self._own_names]
            return EmitRows(pa.schema([*stream.schema, *own]), taken)

        aggregation = self._keeping_rows(Best(count, order, ties))
        return self._built("top", aggregation, settings, queryable, results)

    def _of_rows(self, name: str, settings: Settings) -> str:
        """Checks of what needs the rows themselves; gives what errors call the operator."""
        where = self._stream._named(name, settings)
        self._check(where)
        if self._stream.key is None:
            raise GraphError(
                f"{where}: rows of windows are kept by key. Call key_by(...) before window(...)."
            )
        self._names(where)
        return where

    def _keeping_rows(self, best: Best | None = None) -> Aggregation:
        """What keeps whole rows of the stream."""
        stream = self._stream
        rows = pa.list_(pa.struct(list(stream.schema)))
        columns = self._visible()
        kept = Accumulator(KEPT, "rows", rows, None, KEPT, columns=columns, best=best)
        return Aggregation((kept,), (Output(KEPT, rows, (0,)),))

    def _visible(self) -> tuple[int, ...]:
        """The columns that the author of the stream sees, among those that are sent."""
        key, carried = self._stream.key, self._stream._carried
        hidden = key.columns if key is not None and key.hidden else ()
        return tuple(number for number in range(len(carried)) if number not in hidden)

    def _folded(
        self,
        function: Callable[[Any, Any], Any],
        where: str,
        settings: Settings,
        queryable: bool,
    ) -> Stream:
        """The rows of each key and window folded by a function of the author."""
        self._of_rows("reduce", settings)
        check_callable(function, where, rows=2)
        stream, key = self._stream, self._stream.key
        assert key is not None
        own = {self.time, *(() if key.hidden else key.columns)}
        numbers = [number for number in range(len(stream.schema)) if number not in own]
        names = [stream.schema.names[number] for number in numbers]

        def results(taken: pa.Schema) -> WindowResults:
            fields = [field for field in taken if field.name != KEPT]
            at = len(key.columns) + (0 if isinstance(self.window, Rows) else 2)
            reduced = [stream.schema.field(number) for number in numbers]
            out = pa.schema([*fields[:at], *reduced, *fields[at:]])
            bounds = tuple(name for name in self._own_names if name != IS_FINAL)
            fold = FoldRows(function, tuple(names), len(key.columns), bounds, self._updates)
            return CallFunction(fold, taken, out, key.type, len(key.columns))

        aggregation = self._keeping_rows()
        return self._built("reduce", aggregation, settings, queryable, results)

    def _check(self, where: str) -> None:
        """Refuse what windows of this kind cannot do."""
        if isinstance(self.window, Rows) and self._updates:
            raise GraphError(
                f"{where}: emit={self.emit!r} is for windows of time. One of a number of rows is "
                "emitted when its last row has come. Leave it out."
            )
        if isinstance(self.window, Session) and self.emit == "early":
            raise GraphError(
                f'{where}: emit="early" is for windows with fixed bounds; a session may still '
                'merge with others. Write emit="final" or "update".'
            )

    def _names(self, where: str) -> tuple[str, ...]:
        """The columns that are emitted beside the aggregates."""
        key = self._stream.key
        assert key is not None
        names = (HIDDEN_KEY_NAME,) if key.hidden else key.names
        own = self._own_names
        for name in own:
            if name in names:
                raise GraphError(
                    f"{where}: the key has a column {name!r}, and so have the results of windows. "
                    "Give the one of the key another name before key_by(...)."
                )
        return (*names, *own)

    @property
    def _own_names(self) -> tuple[str, ...]:
        """The columns that windows add."""
        bounds = () if isinstance(self.window, Rows) else (WINDOW_START, WINDOW_END)
        return (*bounds, *((IS_FINAL,) if self._updates else ()))

    @property
    def _updates(self) -> bool:
        return self.emit != "final"

    def _built(
        self,
        name: str,
        aggregation: Aggregation,
        settings: Settings,
        queryable: bool,
        results: Callable[[pa.Schema], WindowResults] | None = None,
    ) -> Stream:
        """The operator of these windows. ``results`` makes something else of what it emits."""
        stream, key = self._stream, self._stream.key
        assert key is not None
        if not aggregation.can_merge:
            raise GraphError(
                f"{stream._named(name, settings)}: windows put partial results together, and an "
                "aggregate function here has no merge(self, accumulator, other). Write one."
            )
        fields = [stream._carried.field(number) for number in key.columns]
        if key.hidden:
            fields = [fields[0].with_name(HIDDEN_KEY_NAME)]
        keys = len(fields)
        if not isinstance(self.window, Rows):
            fields += [pa.field(bound, TIMESTAMP.arrow) for bound in (WINDOW_START, WINDOW_END)]
        fields += [pa.field(output.name, output.type) for output in aggregation.outputs]
        fields += [pa.field(IS_FINAL, pa.bool_())]
        order = tuple(range(keys if self._is_of_all else 0, len(fields) - (not self._updates)))
        where = stream._named(name, settings)
        every_us = None if self.every_s is None else round(self.every_s * 1_000_000)
        emission = Emission(self.lateness_us, self._updates, every_us)
        node, state = self._node(aggregation, emission, self._visible(), order, where)
        out = pa.schema([fields[number] for number in order])
        if results is not None:
            made = results(out)
            node, out = replace(node, results=made), made.schema
        states = asked_about((state,), where, queryable=queryable)
        is_counted = isinstance(self.window, Rows)
        stream._builder.check_settings(settings, where)
        added = stream._builder.add(
            name,
            node,
            out,
            settings,
            inputs=stream._inputs(),
            states=(*states, *self._own_states),
            key=key,
            sides=() if is_counted else (SideSpec(LATE, stream.schema),),
        )
        return stream._emitted_by(added)

    @property
    def _own_states(self) -> tuple[StateInfo, ...]:
        """States of the runtime that these windows need."""
        if isinstance(self.window, Rows):
            return (MADE_FOR,)
        # Sessions are kept with their ends, so that another gap or lateness harms none.
        own = (FIRED, ENDED)
        return (*own, MADE_FOR) if isinstance(self.window, FIXED) else own

    def _node(
        self,
        aggregation: Aggregation,
        emission: Emission,
        visible: tuple[int, ...],
        order: tuple[int, ...],
        where: str,
    ) -> tuple[Windowing, StateInfo]:
        """What the operator is to do, and the state that it needs for that."""
        stream, window, key = self._stream, self.window, self._stream.key
        assert key is not None
        times = RowTimes(self.time, self.shift_us)
        if isinstance(window, FIXED):
            node: Windowing = nodes.WindowAggregate(
                aggregation, window.fixed(), times, emission, key, stream._carried, visible, order
            )
            return node, replace(aggregation.state(), name=PANES, namespace=TIMESTAMP)
        if isinstance(window, Rows):
            every = window.size if window.every is None else window.every
            node = nodes.CountAggregate(aggregation, window.size, every, key, order)
            kept = replace(aggregation, accumulators=(*aggregation.accumulators, ROWS))
            namespace = ValueType.of("long")
            return node, replace(kept.state(), name=SLICES, kind=SPANS, namespace=namespace)
        gaps = _gaps(window, stream.schema, where)
        node = nodes.SessionAggregate(aggregation, gaps, times, emission, key, visible, order)
        kept = replace(aggregation, accumulators=(*aggregation.accumulators, END))
        return node, replace(kept.state(), name=SESSIONS, kind=SPANS, namespace=TIMESTAMP)

    def _of_all(
        self,
        name: str,
        aggregates: Mapping[str, Aggregate],
        settings: Settings,
        queryable: bool,
    ) -> Stream:
        """Windows of all rows: those of one key, which nobody sees, at one subtask."""
        where = self._stream._named(name, settings)
        parallelism = settings.get("parallelism")
        if parallelism not in (None, 1):
            raise GraphError(
                f"{where}: parallelism={parallelism!r}, but results of a whole stream are put "
                "together by one subtask. Leave it out, or call key_by(...) before window(...)."
            )
        checked_aggregation(aggregates, self._stream.schema, self._own_names, where)
        windowed = copy(self)
        windowed._stream = self._stream.key_by(lit(0))
        windowed._is_of_all = True
        aggregation = aggregation_of(aggregates, self._stream.schema)
        return windowed._built(name, aggregation, {**settings, "parallelism": 1}, queryable)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._stream!r}, {self.window!r})"


def _gaps(window: Session, schema: pa.Schema, where: str) -> Gaps:
    """How long the gap of each row is."""
    gap = window.gap
    if not window.is_dynamic:
        return Gaps(window.gap_us)
    if not isinstance(gap, Column):
        assert callable(gap)
        return Gaps(None, function=gap)
    expression, found = gap.bound(schema, f"{where}, the gap of a session")
    is_number = pa.types.is_integer(found) or pa.types.is_floating(found)
    if not is_number and not pa.types.is_string(found):
        raise GraphError(
            f"{where}: the gap of a session is of type {format_type(found)}; it is a number of "
            'seconds, or a text as "5min".'
        )
    return Gaps(None, expression)


def _check_emit(emit: Any, every: Any, where: str) -> None:
    known = get_args(Emits)
    if emit not in known:
        raise GraphError(
            f"{where}: emit={emit!r} is unknown; choose one of {', '.join(known)}."
            f"{did_you_mean(emit, known)}"
        )
    if emit == "early" and every is None:
        raise GraphError(
            f'{where}: emit="early" needs to know how often: window(..., emit="early", every="5s").'
        )
    if emit != "early" and every is not None:
        raise GraphError(
            f"{where}: every={every!r} says how often results are emitted early, and emit={emit!r} "
            'emits none. Write emit="early", or give every= to the window: '
            'ms.sliding("10s", every="2s").'
        )


def _refuse_time(where: str, why: str, on: Any, lateness: Any) -> None:
    for name, given in (("on", on), ("lateness", lateness)):
        if given is not None and (name == "on" or microseconds(given, f"{where}: lateness")):
            raise GraphError(f"{where}: {name}={given!r} is for event time; {why}. Leave it out.")

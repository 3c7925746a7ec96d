"""The rows of a batch, processed by a kernel or by the function itself.

This is a hot file (benchmarks/compiled.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.compiled.arithmetic import Full, Trap
from mainstay.runtime.compiled.dense import DenseState
from mainstay.runtime.compiled.finding import LostError, found
from mainstay.runtime.compiled.kernels import Kernel
from mainstay.runtime.compiled.plain import marks_of, number_of
from mainstay.runtime.compiled.program import OutUse, Program
from mainstay.runtime.compiled.scratch import Scratch
from mainstay.runtime.compiled.texts import CODED_AS, AllTexts
from mainstay.state.fixed_width import (
    CODED,
    Array,
    column_of,
    dtype_of,
    numbers,
    validity,
)

MOST_AT_A_TIME = 512
"""Rows for which the function itself is called before the kernel is tried again."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run needs of its operator.

    ``interpret`` calls the function itself for some rows, from one to another, and gives theirs.
    ``keys`` gives the keys of such rows in the form that is kept.
    """

    program: Program
    states: Sequence[Any]
    scratches: Sequence[Scratch]
    function: Any
    ctx: Any
    schema: pa.Schema
    keys: Callable[[pa.RecordBatch], list[Any]]
    interpret: Callable[[pa.RecordBatch], list[Any]]


class Run:
    """One batch. ``group`` is the number of the key of each row, ``keys`` has the keys."""

    def __init__(self, parts: Parts, batch: pa.RecordBatch, keys: pa.Array, group: Array) -> None:
        self._parts, self._batch, self._keys, self._group = parts, batch, keys, group
        self._texts = AllTexts()
        self._progress = np.zeros(2, np.int64)
        self._apart: list[tuple[int, list[Any]]] = []
        """Rows that the function itself gave, each with how many the kernel had given before."""
        pairs = zip(parts.program.states, parts.states, strict=True)
        self._states = [
            DenseState(use, handle.info, len(keys), self._texts) for use, handle in pairs
        ]
        self._room = 0
        self._outs: list[Array] = []

    def through(self, kernel: Kernel | None) -> None:
        """Process all rows."""
        for state, handle in zip(self._states, self._parts.states, strict=True):
            state.read(handle, self._keys)
        arguments = None if kernel is None else self._arguments()
        if kernel is None or arguments is None:
            self._texts.tell()
            self._interpret(self._batch.num_rows)
        else:
            self._with_kernel(kernel, arguments)

    def _with_kernel(self, kernel: Kernel, arguments: list[Any]) -> None:
        count, at_a_time, last = self._batch.num_rows, 1, -1
        states = [array for state in self._states for array in state.arguments()]
        self._grow(count)
        while self._progress[0] < count:
            before = int(self._progress[0])
            stopped = _stopped_by(
                kernel,
                [self._progress, count, self._group, *arguments, *states, *self._outs, self._room],
            )
            # Not while it is handled: it would be the context of an error of the author's.
            if stopped is Full:
                self._grow(2 * self._room + 1)
            elif stopped is Trap:
                here = int(self._progress[0])
                # Where one row after the other traps the kernel is only in the way.
                at_a_time = min(2 * at_a_time, MOST_AT_A_TIME) if here == last else 1
                self._interpret(min(here + at_a_time, count))
                last = int(self._progress[0])
            assert before <= self._progress[0], "a kernel never goes back"

    # ------------------------------------------------------------ arguments

    def _arguments(self) -> list[Any] | None:
        """Columns, constants and literals; None where something is not what it was at the start."""
        program = self._parts.program
        constants = self._constants()
        if constants is None:
            return None
        arrays: list[Any] = [None] * len(program.columns)
        columns = self._batch.columns
        for place, use in enumerate(program.columns):
            column = columns[use.number]
            if use.part == "valid":
                arrays[place] = validity(column)
            elif use.form in CODED:
                self._texts[use.form].ask(column, partial(arrays.__setitem__, place))
            else:
                arrays[place] = numbers(column, use.form)
        literals = np.zeros(len(program.literals), np.int64)
        self._ask_literals(literals)
        told = self._ask_constants(constants)
        self._texts.tell()
        return [*arrays, *told(), literals]

    def _constants(self) -> list[Any] | None:
        """The constants of the function as they are now."""
        parts = self._parts
        try:
            for guard in parts.program.guards:
                now = found(parts.function, parts.ctx, guard.path)
                if marks_of(now) != guard.marks:
                    return None
            values = [found(parts.function, parts.ctx, c.path) for c in parts.program.constants]
        except LostError:
            return None
        numbers_: list[Any] = []
        for constant, value in zip(parts.program.constants, values, strict=True):
            told = None if value is None else number_of(value)
            if told is None and not (constant.optional and value is None):
                return None
            if told is not None and told[0] != constant.form:
                return None
            numbers_.append(None if told is None else told[1])
        return numbers_

    def _ask_constants(self, values: list[Any]) -> Callable[[], list[Any]]:
        given: list[Any] = []
        for constant, value in zip(self._parts.program.constants, values, strict=True):
            place = len(given)
            zero = np.zeros(1, dtype_of(constant.form))[0].item()
            given.append(zero if value is None else value)
            if constant.optional:
                given.append(value is not None)
            if constant.form in CODED and value is not None:
                column = pa.array([value], CODED_AS[constant.form])
                self._texts[constant.form].ask(column, partial(_set_one, given, place))
        return lambda: given

    def _ask_literals(self, literals: Array) -> None:
        for form in CODED:
            own = [
                (n, value)
                for n, (told, value) in enumerate(self._parts.program.literals)
                if told == form
            ]
            if own:
                places, values = zip(*own, strict=True)
                column = pa.array(values, CODED_AS[form])
                self._texts[form].ask(column, partial(literals.__setitem__, list(places)))

    # ------------------------------------------------------------ what goes out

    def _grow(self, room: int) -> None:
        """Have room for so many rows, and keep those that are there."""
        arrays: list[Array] = []
        for use in self._parts.program.outs:
            if use.source is None:
                arrays.append(np.empty(room, dtype_of(use.form)))
                if use.optional:
                    arrays.append(np.empty(room, np.bool_))
        arrays.append(np.empty(room, np.int64))
        made = int(self._progress[1])
        for new, old in zip(arrays, self._outs, strict=False):
            new[:made] = old[:made]
        self._outs, self._room = arrays, room

    def emitted(self) -> Iterator[pa.RecordBatch | list[Any]]:
        """What goes out, in order: batches of the kernel, and rows of the function itself."""
        made = int(self._progress[1])
        whole = self._columns(made) if made else None
        start = 0
        for end, rows in [*self._apart, (made, [])]:
            if whole is not None and end > start:
                yield whole.slice(start, end - start)
                start = end
            if rows:
                yield rows

    def _columns(self, made: int) -> pa.RecordBatch:
        left, outs = iter(self._outs), self._parts.program.outs
        rows = self._rows_of(made) if any(use.source is not None for use in outs) else None
        columns = []
        for use, field in zip(outs, self._parts.schema, strict=True):
            if use.source is None:
                columns.append(self._column(use, left, made, field.type))
            else:
                column = self._batch.column(use.source)
                columns.append(column if rows is None else column.take(rows))
        return pa.RecordBatch.from_arrays(columns, schema=self._parts.schema)

    def _rows_of(self, made: int) -> pa.Array | None:
        """The row that each one that goes out was made for; None if there is one for each."""
        origin = self._outs[-1][:made]
        if made == self._batch.num_rows and bool((origin == np.arange(made)).all()):
            return None
        return pa.array(origin)

    def _column(
        self, use: OutUse, left: Iterator[Array], made: int, arrow: pa.DataType
    ) -> pa.Array:
        values = next(left)[:made]
        ok = next(left)[:made] if use.optional else None
        if use.form in CODED:
            return self._texts[use.form].column(values, ok, arrow)
        return column_of(values, ok, use.form, arrow)

    # ------------------------------------------------------------ the function itself

    def _interpret(self, end: int) -> None:
        """Call the function itself for the next rows, with the states as they are before them."""
        start = int(self._progress[0])
        rows = self._batch.slice(start, end - start)
        group = self._group[start:end]
        key_of = dict(zip(group.tolist(), self._parts.keys(rows), strict=True))
        places = np.array(sorted(key_of), np.int64)
        keys = [key_of[place] for place in places.tolist()]
        for state, scratch in zip(self._states, self._parts.scratches, strict=True):
            kept = state.info.value.from_array(state.kept(places))
            scratch.begin(zip(keys, kept, strict=True))
        given = self._parts.interpret(rows)
        place_of = dict(zip(keys, places.tolist(), strict=True))
        for state, scratch in zip(self._states, self._parts.scratches, strict=True):
            if scratch.changed:
                changed = list(scratch.changed)
                column = state.info.value.to_array([scratch.live.get(key) for key in changed])
                state.put(np.array([place_of[key] for key in changed], np.int64), column)
        self._progress[0] = end
        if given:
            self._apart.append((int(self._progress[1]), given))

    def store(self) -> None:
        """Put back what was written."""
        for state, handle in zip(self._states, self._parts.states, strict=True):
            state.store(handle, self._keys)


def _stopped_by(kernel: Kernel, arguments: list[Any]) -> type[Exception] | None:
    """Have a kernel go on, and say what it was stopped by."""
    try:
        kernel(*arguments)
    except (Full, Trap) as stop:
        return type(stop)
    return None


def _set_one(values: list[Any], place: int, codes: Array) -> None:
    values[place] = int(codes[0])

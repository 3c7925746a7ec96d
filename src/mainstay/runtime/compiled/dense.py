"""The states of the keys of a batch as arrays: one place for each key.

A state is read for all keys at once, before the first row, and what was written is put back behind
the last. A field of a struct has an array of its own, and one that says whether it is there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.compiled.program import StateUse
from mainstay.runtime.compiled.texts import AllTexts
from mainstay.state.fixed_width import (
    CODED,
    Array,
    FieldUse,
    column_of,
    numbers,
    struct_of,
    validity,
)
from mainstay.state.info import StateInfo

_NOTHING = np.zeros(0, np.bool_)


class DenseState:
    """One state of the keys of a batch."""

    def __init__(self, use: StateUse, info: StateInfo, count: int, texts: AllTexts) -> None:
        self.use, self.info = use, info
        self._texts = texts
        self._values: list[Array] = [_NOTHING] * len(use.fields)
        self._oks: list[Array | None] = [None] * len(use.fields)
        self.present = _NOTHING
        self.written = np.zeros(count, np.bool_)
        self._slots: Array | None = None
        """Where a table that has arrays itself keeps the keys."""

    def columns(self, kept: pa.Array) -> list[pa.Array]:
        """The columns of the fields of what is kept."""
        return list(kept.flatten()) if self.use.is_struct else [kept]

    def read(self, handle: Any, keys: pa.Array) -> None:
        """Take what is kept for all keys. Codes of texts come when all have asked for theirs."""
        if handle.arrays is not None:
            self._slots, (*arrays, self.present) = handle.arrays.taken(keys)
            self._spread(arrays)
        else:
            self._fill(handle.column(keys))

    def _spread(self, arrays: list[Array]) -> None:
        left = iter(arrays)
        for number, field in enumerate(self.use.fields):
            self._values[number] = next(left)
            if field.optional:
                self._oks[number] = next(left)

    def _fill(self, kept: pa.Array) -> None:
        self.present = _own(validity(kept))
        columns = self.columns(kept)
        for number, (field, column) in enumerate(zip(self.use.fields, columns, strict=True)):
            if field.form in CODED:
                self._texts[field.form].ask(column, partial(self._set, number))
            else:
                self._set(number, numbers(column, field.form))
            if field.optional:
                self._oks[number] = _own(validity(column))

    def store(self, handle: Any, keys: pa.Array) -> None:
        """Put back what was written."""
        places = np.flatnonzero(self.written)
        if not len(places):
            return
        every = len(places) == len(keys)
        if self._slots is not None:
            arrays = self.arguments()[:-1]
            if not every:
                arrays = [array[places] for array in arrays]
            handle.arrays.put_arrays(self._slots if every else self._slots[places], arrays)
        else:
            keys = keys if every else keys.take(pa.array(places))
            handle.put_many(keys, self.kept(places))

    def _set(self, number: int, values: Array) -> None:
        self._values[number] = _own(values)

    def arguments(self) -> list[Array]:
        """The arrays that a kernel is given, in its order."""
        given: list[Array] = []
        for values, ok in zip(self._values, self._oks, strict=True):
            given += [values] if ok is None else [values, ok]
        return [*given, self.present, self.written]

    def kept(self, places: Array) -> pa.Array:
        """What is kept in some places as a column of the state's type."""
        arrow = self.info.value.arrow
        present = self.present[places]
        if not self.use.is_struct:
            return self._column(0, places, present, arrow)
        fields = list(arrow)
        columns = [self._column(n, places, None, each.type) for n, each in enumerate(fields)]
        return struct_of(columns, present, arrow)

    def _column(
        self, number: int, places: Array, there: Array | None, arrow: pa.DataType
    ) -> pa.Array:
        field, values, ok = self.use.fields[number], self._values[number][places], self._oks[number]
        valid = there if ok is None else ok[places]
        if field.form in CODED:
            return self._texts[field.form].column(values, valid, arrow)
        return column_of(values, valid, field.form, arrow)

    def put(self, places: Array, kept: pa.Array) -> None:
        """Keep something else in some places."""
        self.present[places] = validity(kept)
        self.written[places] = True
        columns = self.columns(kept)
        for number, (field, column) in enumerate(zip(self.use.fields, columns, strict=True)):
            self._values[number][places] = self._numbers(field, column)
            ok = self._oks[number]
            if ok is not None:
                ok[places] = validity(column)

    def _numbers(self, field: FieldUse, column: pa.Array) -> Any:
        if field.form not in CODED:
            return numbers(column, field.form)
        texts = self._texts[field.form]
        return [texts.code(value) for value in column.to_pylist()]


def _own(array: Array) -> Array:
    """An array that may be written to."""
    return array if array.flags.writeable and array.flags.owndata else array.copy()

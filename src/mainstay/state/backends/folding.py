"""Accumulators that are kept as rows: a batch is folded in by reading and writing its keys once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from mainstay.schema import row_class
from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.info import StateInfo
from mainstay.state.values import ValueType


class RowTable(Protocol):
    """A table of values that are rows of accumulators."""

    info: StateInfo
    key: ValueType

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]: ...
    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None: ...


class HeldTable(RowTable, Protocol):
    """One whose rows hold what accumulators keep in memory."""

    def note_before(self, keys: Sequence[Any], rows: Sequence[Any], kept: Sequence[Column]) -> None:
        """Rows are about to be changed: what was kept for keys, as rows and in columns."""


def fold(
    table: RowTable, parts: Sequence[Accumulating], keys: pa.Array, partials: Sequence[Column]
) -> list[Column]:
    """Merge a partial result of each accumulator into each of some distinct keys."""
    kept_keys = table.key.from_array(keys)
    rows = table.read_many(kept_keys, None)
    merged = _merged(parts, table.info.value.to_array(rows).flatten(), partials)
    table.put_many(kept_keys, table.info.value.from_array(struct_of(parts, merged, table.info)))
    return merged


def fold_held(
    table: HeldTable, parts: Sequence[Accumulating], keys: pa.Array, partials: Sequence[Column]
) -> list[Column]:
    """The same where rows hold what accumulators keep in memory, and are not made new each time."""
    kept_keys = table.key.from_array(keys)
    rows = table.read_many(kept_keys, None)
    kept = held_columns(parts, rows)
    table.note_before(kept_keys, rows, kept)
    merged = [
        p.merge(*each) for p, each in zip(parts, zip(kept, partials, strict=True), strict=True)
    ]
    held = [part.to_held(column) for part, column in zip(parts, merged, strict=True)]
    make = row_class(pa.schema(list(table.info.value.arrow)))
    table.put_many(kept_keys, list(map(make, zip(*held, strict=True))))
    return merged


def held_rows(parts: Sequence[Accumulating], rows: Sequence[Any], info: StateInfo) -> pa.Array:
    """A column of rows that hold what accumulators keep in memory; None is null."""
    column = struct_of(parts, held_columns(parts, rows), info)
    if not any(row is None for row in rows):
        return column
    mask = pa.array([row is None for row in rows])
    return pa.StructArray.from_arrays(column.flatten(), fields=list(info.value.arrow), mask=mask)


def held_columns(parts: Sequence[Accumulating], rows: Sequence[Any]) -> list[Column]:
    return [
        part.from_held([None if row is None else row[number] for row in rows])
        for number, part in enumerate(parts)
    ]


def struct_of(
    parts: Sequence[Accumulating], columns: Sequence[Column], info: StateInfo
) -> pa.Array:
    """The rows of accumulators as a column."""
    arrays = [part.to_arrow(column) for part, column in zip(parts, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(info.value.arrow))


def _merged(
    parts: Sequence[Accumulating], fields: Sequence[pa.Array], partials: Sequence[Column]
) -> list[Column]:
    return [
        part.merge(part.from_arrow(field), partial)
        for part, field, partial in zip(parts, fields, partials, strict=True)
    ]

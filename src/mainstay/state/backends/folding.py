"""Accumulators that are kept as rows: a batch is folded in by reading and writing its keys once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.info import StateInfo
from mainstay.state.values import ValueType


class RowTable(Protocol):
    """A table of values that are rows of accumulators."""

    info: StateInfo
    key: ValueType

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]: ...
    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None: ...


def fold(
    table: RowTable, parts: Sequence[Accumulating], keys: pa.Array, partials: Sequence[Column]
) -> list[Column]:
    """Merge a partial result of each accumulator into each of some distinct keys."""
    kept_keys = table.key.from_array(keys)
    rows = table.read_many(kept_keys, None)
    fields = table.info.value.to_array(rows).flatten()
    merged = [
        part.merge(part.from_arrow(field), partial)
        for part, field, partial in zip(parts, fields, partials, strict=True)
    ]
    arrays = [part.to_arrow(column) for part, column in zip(parts, merged, strict=True)]
    values = pa.StructArray.from_arrays(arrays, fields=list(table.info.value.arrow))
    table.put_many(kept_keys, table.info.value.from_array(values))
    return merged

"""Changes of rows of accumulators whose sets have grown: a segment holds what was added to them.

Rows in memory hold whole sets, which share what they have in common. What files have of a key is
what was kept for it when the segment began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.backends.folding import held_columns, struct_of
from mainstay.state.distinct import DistinctValues
from mainstay.state.growing import continues, rest_of
from mainstay.state.info import StateInfo
from mainstay.state.operations import APPEND, DELETE, PUT
from mainstay.state.partials import objects

Before = tuple[Any, ...]


class GrownChanges(dict[Any, Any]):
    """The changes of a segment by key, and what was kept before for each that was folded into."""

    __slots__ = ("before",)

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[Any, Before | None] = {}

    def note(self, keys: Sequence[Any], rows: Sequence[Any], kept: Sequence[Column]) -> None:
        """What was kept for keys, as rows and in columns; None where nothing was."""
        columns = zip(*(values.tolist() for values, _ in kept), strict=True)
        for key, row, values in zip(keys, rows, columns, strict=True):
            if key not in self.before:
                self.before[key] = None if row is None else values


def before_in(part: Mapping[Any, Any], key: Any) -> Before | None:
    """What files have of a key that a segment has changed, where that is known."""
    return part.before.get(key) if isinstance(part, GrownChanges) else None


def grown_rows(
    parts: Sequence[Accumulating],
    kept: Sequence[Any],
    before: Sequence[Before | None],
    info: StateInfo,
) -> list[pa.Array]:
    """What is done with rows, and their values: those that continue what was there append."""
    columns = held_columns(parts, kept)
    sets = {n: part for n, part in enumerate(parts) if isinstance(part, DistinctValues)}
    appended = np.array(
        [row is not None and old is not None for row, old in zip(kept, before, strict=True)]
    )
    for number in sets:
        values = columns[number][0].tolist()
        for row in np.flatnonzero(appended).tolist():
            old = before[row]
            appended[row] = old is not None and continues(values[row], old[number])
    for number, part in sets.items():
        rest = [
            rest_of(part.values, each, old[number] if is_appended and old is not None else None)
            for each, old, is_appended in zip(
                columns[number][0].tolist(), before, appended.tolist(), strict=True
            )
        ]
        columns[number] = objects(rest), None
    gone = np.array([row is None for row in kept], np.bool_)
    ops = np.where(gone, DELETE, np.where(appended, APPEND, PUT)).astype(np.int8)
    rows = struct_of(parts, columns, info)
    if gone.any():
        fields = list(info.value.arrow)
        rows = pa.StructArray.from_arrays(rows.flatten(), fields=fields, mask=pa.array(gone))
    return [pa.array(ops), rows]

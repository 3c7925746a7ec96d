"""Bugs to plant in what becomes of state over epochs, merges and restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from mainstay.state import compaction, evolution, merge, upgrade
from mainstay.state.upgrade import StateUpgrade
from tests.histories.histories import History
from tests.histories.programs import Declared
from tests.simulation.planting import planting

DEFECTS, defect = planting()


@defect
def fields_of_structs_are_converted_by_their_places() -> Iterator[None]:
    right = evolution._convert_structs

    def by_place(array: Any, declared: Any) -> Any:
        names = [field.name for field in declared][: array.type.num_fields]
        names += [f"{number} more" for number in range(array.type.num_fields - len(names))]
        try:
            fields = [each.with_name(name) for each, name in zip(array.type, names, strict=True)]
            renamed = pa.StructArray.from_arrays(
                array.flatten(), fields=fields, mask=array.is_null()
            )
            return right(renamed, declared)
        except pa.ArrowException:
            return right(array, declared)

    with patch.object(evolution, "_convert_structs", by_place):
        yield


@defect
def what_has_expired_comes_back_with_another_time_to_live() -> Iterator[None]:
    def everything(flat: Any, horizon_us: int) -> Any:
        return np.ones(len(flat), np.bool_)

    with patch.object(upgrade, "not_expired", everything):
        yield


@defect
def a_merge_forgets_what_was_deleted() -> Iterator[None]:
    right = merge._kept
    with patch.object(merge, "_kept", lambda table, to_base: right(table, True)):
        yield


@defect
def a_merge_takes_the_newest_segment_for_the_oldest() -> Iterator[None]:
    right = compaction.merge

    def reversed_(parts: Any, *, to_base: bool) -> Any:
        return right(parts[::-1], to_base=to_base)

    with patch.object(compaction, "merge", reversed_):
        yield


@defect
def a_migration_leaves_null_for_what_it_drops() -> Iterator[None]:
    right = StateUpgrade.values

    def kept(self: Any, flat: Any) -> Any:
        values, _ = right(self, flat)
        return values, np.ones(len(values), np.bool_)

    with patch.object(StateUpgrade, "values", kept):
        yield


HISTORIES = {
    "a migration leaves null for what it drops": History(
        "string",
        "heap",
        {"s0": Declared("list", "string")},
        [
            ("add", "a", "s0", "a"),
            ("add", "a", "s0", "bc"),
            ("snapshot",),
            ("restart", 1, 1, "heap", {"s0": Declared("list", "long", migrates=True)}),
        ],
    )
}
"""Histories that show what few drawn ones do."""

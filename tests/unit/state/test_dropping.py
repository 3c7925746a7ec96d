"""Drops: how they are noted, joined, and laid over the rows of older parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mainstay.snapshot.drops import FIRST_PANE, Drop, Drops, joined
from mainstay.snapshot.statefile import StateTable
from mainstay.state.dropping import DroppedPanes
from mainstay.state.merge import merge
from mainstay.state.operations import PUT


def part(*rows: tuple[int, int, int], drops: Drops = ()) -> StateTable:
    """Rows of a key-group, a pane and a value; the key is the key-group."""
    groups, panes, values = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {
        "key": pa.array(groups, pa.int64()),
        "namespace": pa.array(panes, pa.int64()),
        "op": pa.array([PUT] * len(rows), pa.int8()),
        "value": pa.array(values, pa.int64()),
    }
    return StateTable("panes", pa.table(columns), np.array(groups, np.uint16), drops=drops)


def shown(rows: StateTable) -> list[tuple[int, ...]]:
    columns = ("key", "namespace", "value")
    return [tuple(row[name] for name in columns) for row in rows.table.to_pylist()]


def test_panes_that_die_in_their_order_are_one_drop() -> None:
    dropped = DroppedPanes()
    assert not dropped
    for pane in (3, 4, 9):
        dropped.add(pane, is_lowest=True)
    assert dropped.drops(128) == (Drop(FIRST_PANE, 9, 0, 127),)


def test_a_pane_that_dies_above_others_is_a_drop_of_its_own_until_they_die_too() -> None:
    dropped = DroppedPanes()
    dropped.add(7, is_lowest=False)
    dropped.add(5, is_lowest=False)
    assert dropped.drops(8) == (Drop(5, 5, 0, 7), Drop(7, 7, 0, 7))
    dropped.add(6, is_lowest=True)
    assert dropped.drops(8) == (Drop(FIRST_PANE, 7, 0, 7),)


def test_drops_of_other_key_groups_are_not_joined() -> None:
    one, other = Drop(FIRST_PANE, 5, 0, 3), Drop(FIRST_PANE, 7, 4, 9)
    assert joined([other, one]) == (one, other)
    assert joined([other, one, Drop(2, 8, 0, 3)]) == (Drop(FIRST_PANE, 8, 0, 3), other)


def test_a_drop_takes_older_rows_of_its_key_groups_and_no_newer_ones() -> None:
    parts = [
        part((1, 5, 10), (1, 6, 11), (9, 5, 12)),
        part((1, 5, 20), drops=(Drop(FIRST_PANE, 5, 0, 3),)),
    ]
    merged = merge(parts, to_base=False)
    assert shown(merged) == [(1, 6, 11), (9, 5, 12), (1, 5, 20)]
    assert merged.drops == (Drop(FIRST_PANE, 5, 0, 3),)
    assert merge(parts, to_base=True).drops == ()


def test_a_part_without_rows_still_drops() -> None:
    merged = merge([part((1, 5, 10)), part(drops=(Drop(5, 5, 0, 9),))], to_base=True)
    assert shown(merged) == []

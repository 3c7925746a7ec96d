"""Compaction by key-groups: the same as merging everything at once, with less of it at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.statefile import StateTable, encode_state_file, open_state_file
from mainstay.state import compaction
from mainstay.state.compaction import LoadedPart, Part, StoredPart, compacted, in_pieces
from mainstay.state.declaration import ListState
from mainstay.state.hashing import key_groups
from mainstay.state.merge import merge
from mainstay.state.operations import APPEND, DELETE, PUT, columns_of
from mainstay.state.values import ValueType

GROUPS = 16
SCHEMA = columns_of(replace(ListState("long").info(), name="s"), ValueType.of("long"))


def table(rows: Sequence[tuple[Any, ...]]) -> StateTable:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return StateTable("s", pa.table(arrays, schema=SCHEMA), key_groups([arrays[0]], GROUPS))


def written(rng: random.Random, rows: int) -> StateTable:
    """What a segment may hold: values that are put, appended to and deleted again and again."""
    made = []
    for _ in range(rows):
        op = rng.choice([PUT, APPEND, APPEND, DELETE])
        made.append((rng.randrange(12), op, None if op == DELETE else [rng.randrange(100)]))
    return table(made)


def stored_part(rows: StateTable, first: int = 0, last: int = GROUPS - 1) -> StoredPart:
    storage = MemoryStorage()
    file = encode_state_file([rows], is_base=False, max_parallelism=GROUPS, hash_id="h")
    storage.write("file", file.data)
    ref = SegmentRef("id", file.ref("file"), first, last, file.rows, is_base=False)
    return StoredPart(open_state_file(storage, ref.file), ref)


def loaded_part(rows: StateTable) -> LoadedPart:
    """In several tables, as a database gives them."""
    half = rows.table.num_rows // 2
    return LoadedPart(
        StateTable("s", rows.table.slice(start, count), rows.groups[start:][:count])
        for start, count in ((0, half), (half, rows.table.num_rows - half))
    )


def pieces(parts: Sequence[Part], *, to_base: bool) -> list[StateTable]:
    return list(
        compacted(parts, "s", to_base=to_base, max_parallelism=GROUPS, prepare=lambda table: table)
    )


def by_key(tables: Sequence[StateTable]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for each in tables:
        for row in each.table.to_pylist():
            found.setdefault(row["key"], []).append((row["op"], row["value"]))
    return found


@pytest.mark.parametrize("to_base", [False, True])
@pytest.mark.parametrize("piece_rows", [1, 7, 1000])
@pytest.mark.parametrize("make", [stored_part, loaded_part])
def test_in_pieces_it_is_the_same_as_at_once(
    monkeypatch: pytest.MonkeyPatch, make: Any, piece_rows: int, to_base: bool
) -> None:
    monkeypatch.setattr(compaction, "PIECE_ROWS", piece_rows)
    for seed in range(20):
        rng = random.Random(seed)
        tables = [written(rng, rng.randrange(30)) for _ in range(rng.randint(1, 4))]
        found = pieces([make(each) for each in tables], to_base=to_base)
        assert by_key(found) == by_key([merge(tables, to_base=to_base)])
        groups = [group for each in found for group in sorted(set(each.groups.tolist()))]
        assert groups == sorted(set(groups))


def test_a_piece_has_about_as_many_rows_as_are_merged_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "PIECE_ROWS", 50)
    rows = table([(key, PUT, [key]) for key in range(1000)])
    found = pieces([stored_part(rows)], to_base=True)
    crowded = int(np.bincount(rows.groups).max())
    assert len(found) > 5
    assert all(each.table.num_rows <= 50 + crowded for each in found)


def test_of_a_file_only_the_key_groups_of_the_segment_count() -> None:
    rows = table([(key, PUT, [key]) for key in range(100)])
    found = pieces([stored_part(rows, 3, 6)], to_base=False)
    expected = {key for key, group in zip(range(100), rows.groups, strict=True) if 3 <= group <= 6}
    assert set(by_key(found)) == expected


def test_a_state_that_only_some_parts_have_is_compacted_from_those() -> None:
    other = replace(table([(1, PUT, [1])]), name="other")
    found = pieces([stored_part(other), stored_part(table([(2, PUT, [5])]))], to_base=True)
    assert by_key(found) == {2: [(PUT, [5])]}


def test_what_is_read_is_prepared_before_it_is_merged() -> None:
    parts = [stored_part(table([(1, PUT, [1])])), stored_part(table([(1, APPEND, [2])]))]
    nothing = table([])
    found = list(
        compacted(parts, "s", to_base=True, max_parallelism=GROUPS, prepare=lambda table: nothing)
    )
    assert by_key(found) == {}


@pytest.mark.parametrize("piece_rows", [1, 7, 1000])
def test_a_table_in_pieces_has_the_same_rows_in_the_order_of_key_groups(
    monkeypatch: pytest.MonkeyPatch, piece_rows: int
) -> None:
    monkeypatch.setattr(compaction, "PIECE_ROWS", piece_rows)
    for seed in range(20):
        whole = replace(written(random.Random(seed), 40), repeats=True)
        found = list(in_pieces(whole))
        assert by_key(found) == by_key([whole])
        assert all(each.repeats for each in found)
        groups = [group for each in found for group in sorted(set(each.groups.tolist()))]
        assert groups == sorted(set(whole.groups.tolist()))
        for each in found:
            assert each.groups.tolist() == key_groups([each.table["key"]], GROUPS).tolist()


def test_a_table_without_rows_is_one_piece() -> None:
    assert [piece.table.num_rows for piece in in_pieces(table([]))] == [0]

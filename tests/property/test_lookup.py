"""One key is found in a state file, sorted or not, and nothing of it is missed."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.snapshot import statewriter
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.statefile import StateFile, StateTable, encode_state_file, open_state_file
from mainstay.state import by_key as module
from mainstay.state.by_key import by_key, place_in_group
from mainstay.state.hashing import groups_of, hash_columns
from tests.searching import examples

GROUPS = 4
keys = st.lists(st.integers(0, 40), max_size=120)


def stored(rows: StateTable, chunk_rows: int) -> StateFile:
    with (
        mock.patch.object(statewriter, "_CHUNK_ROWS", chunk_rows),
        mock.patch.object(statewriter, "_SOUGHT_ROWS", chunk_rows),
    ):
        encoded = encode_state_file([rows], is_base=False, max_parallelism=GROUPS, hash_id="h")
    storage = MemoryStorage()
    storage.write("f", encoded.data)
    return open_state_file(storage, encoded.ref("f"))


def rows_of(values: list[int]) -> StateTable:
    column = pa.array(values, pa.int64())
    table = pa.table({"key": column, "number": pa.array(range(len(values)), pa.int64())})
    return StateTable("s", table, groups_of(hash_columns([column]), GROUPS))


def found(file: StateFile, key: int) -> StateTable:
    hashes = hash_columns([pa.array([key], pa.int64())])
    group, place = groups_of(hashes, GROUPS)[0], place_in_group(hashes)[0]
    return file.find("s", int(group), int(place))


@settings(max_examples=examples(200), deadline=None)
@given(values=keys, chunk_rows=st.integers(1, 9), is_sorted=st.booleans(), few=st.booleans())
def test_all_rows_of_a_key_are_found_in_their_order(
    values: list[int], chunk_rows: int, is_sorted: bool, few: bool
) -> None:
    def colliding(hashes: Any) -> Any:
        # Many keys share a place, as few do with as many bits as there are.
        return (hashes % np.uint64(3)).astype(np.uint32)

    places = colliding if few else place_in_group
    with mock.patch.object(module, "place_in_group", places):
        rows = by_key(rows_of(values)) if is_sorted else rows_of(values)
    file = stored(rows, chunk_rows)
    for key in range(42):
        hashes = hash_columns([pa.array([key], pa.int64())])
        part = file.find("s", int(groups_of(hashes, GROUPS)[0]), int(places(hashes)[0]))
        numbers = part.table.filter(pa.compute.equal(part.table.column("key"), key))
        expected = [number for number, each in enumerate(values) if each == key]
        assert numbers.column("number").to_pylist() == expected


@settings(max_examples=examples(50), deadline=None)
@given(values=keys)
def test_sorting_by_key_loses_no_row_and_keeps_the_order_of_each_key(values: list[int]) -> None:
    rows = rows_of(values)
    ordered = by_key(rows)
    assert sorted(ordered.table.to_pylist(), key=lambda row: row["number"]) == (
        rows.table.to_pylist()
    )
    assert (np.diff(ordered.groups.astype(int)) >= 0).all()
    seen: dict[int, int] = {}
    for row in ordered.table.to_pylist():
        assert row["number"] > seen.get(row["key"], -1)
        seen[row["key"]] = row["number"]


def test_a_lookup_reads_one_chunk_where_the_file_is_sorted() -> None:
    rows = rows_of(list(range(4000)))
    file = stored(by_key(rows), 100)
    assert max(found(file, key).table.num_rows for key in range(0, 4000, 97)) <= 200
    whole = stored(rows, 100)
    assert found(whole, 7).table.num_rows > 900


def test_rows_that_are_too_many_to_sort_are_left_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    assert by_key(rows_of([1, 2, 3])).hashes is not None
    rows = rows_of([1, 2, 3, 4])
    assert by_key(rows) is rows

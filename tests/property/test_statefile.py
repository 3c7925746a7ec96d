"""Laws of the state file: however the key-groups are cut, every row is read exactly once."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.snapshot import statewriter
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.statefile import StateTable, encode_state_file, open_state_file
from tests.searching import examples

MAX_PARALLELISM = 16

values = st.one_of(st.none(), st.lists(st.integers(-5, 5), max_size=3))
row_lists = st.lists(st.tuples(st.integers(0, MAX_PARALLELISM - 1), values), max_size=60)
cut_sets = st.sets(st.integers(1, MAX_PARALLELISM - 1))


@settings(max_examples=examples(150), deadline=None)
@given(
    rows=row_lists,
    cuts=cut_sets,
    chunk_rows=st.integers(1, 20),
    sort_bytes=st.sampled_from([50, 400, 1 << 20]),
    compression=st.sampled_from(["lz4", "zstd", None]),
)
def test_ranges_that_tile_the_key_groups_give_every_row_once_and_in_order(
    rows: list[tuple[int, list[int] | None]],
    cuts: set[int],
    chunk_rows: int,
    sort_bytes: int,
    compression: Literal["lz4", "zstd"] | None,
) -> None:
    table = pa.table(
        {
            "number": pa.array(range(len(rows)), pa.int32()),
            "value": pa.array([value for _, value in rows], pa.list_(pa.int64())),
        }
    )
    groups = np.array([group for group, _ in rows], dtype=np.uint16)
    with (
        mock.patch.object(statewriter, "_CHUNK_ROWS", chunk_rows),
        mock.patch.object(statewriter, "_SORT_BYTES", sort_bytes),
    ):
        encoded = encode_state_file(
            [StateTable("s", table, groups)],
            is_base=False,
            max_parallelism=MAX_PARALLELISM,
            hash_id="h",
            compression=compression,
        )
    storage = MemoryStorage()
    storage.write("f", encoded.data)
    file = open_state_file(storage, encoded.ref("f"))

    edges = [0, *sorted(cuts), MAX_PARALLELISM]
    found: list[tuple[int, int, list[int] | None]] = []
    for first, after in pairwise(edges):
        part = file.read("s", first, after - 1)
        assert part.table.num_rows == len(part.groups)
        assert all(first <= group < after for group in part.groups.tolist())
        columns = part.table.to_pydict()
        found += zip(part.groups.tolist(), columns["number"], columns["value"], strict=True)

    numbered = [(group, number, value) for number, (group, value) in enumerate(rows)]
    assert found == sorted(numbered, key=lambda row: row[:2])
    assert encoded.rows == len(rows)

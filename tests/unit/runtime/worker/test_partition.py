from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mainstay.runtime.spec import (
    Broadcast,
    EdgeSpec,
    Forward,
    HashByKey,
    KeySpec,
    Partitioning,
    Rebalance,
)
from mainstay.runtime.worker.partition import partitioner_for
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import range_of
from mainstay.state.values import ValueType

SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64())])
BY_KEY = HashByKey(KeySpec((0,), ValueType.of("string"), ("key",)))


def split(
    partitioning: Partitioning,
    channels: int,
    batches: list[pa.RecordBatch],
    subtask: int = 0,
    max_parallelism: int = 128,
) -> list[list[tuple[int, list[int]]]]:
    """For each batch the channels that get something of it, with the values of ``n``."""
    edge = EdgeSpec(0, "a", 0, 2, "b", channels, 0, partitioning, SCHEMA)
    partitioner = partitioner_for(edge, subtask, max_parallelism)
    return [
        [(number, part.column("n").to_pylist()) for number, part in partitioner.split(batch)]
        for batch in batches
    ]


def batch_of(keys: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys, pa.string()), list(range(len(keys)))], schema=SCHEMA)


def test_rows_go_to_the_owner_of_their_key_group() -> None:
    keys = [f"key-{n}" for n in range(500)] + [None, ""]
    batch = batch_of(keys)
    groups = key_groups([batch.column(0)], 100)
    for channels in (2, 3, 7, 100):
        (parts,) = split(BY_KEY, channels, [batch], max_parallelism=100)
        for channel, rows in parts:
            owned = range_of(channel, channels, 100)
            assert all(groups[row] in owned for row in rows)
        assert sorted(row for _, rows in parts for row in rows) == list(range(len(keys)))


def test_the_rows_of_a_channel_keep_their_order() -> None:
    (parts,) = split(BY_KEY, 3, [batch_of([f"key-{n % 17}" for n in range(200)])])
    assert len(parts) == 3
    assert all(rows == sorted(rows) for _, rows in parts)


def test_a_batch_of_one_key_goes_whole_to_one_channel() -> None:
    batch = batch_of(["same"] * 5)
    ((part,),) = split(BY_KEY, 4, [batch])
    assert part[1] == [0, 1, 2, 3, 4]


def test_an_empty_batch_gives_no_rows_to_anyone() -> None:
    (parts,) = split(BY_KEY, 4, [batch_of([])])
    assert [rows for _, rows in parts if rows] == []


@pytest.mark.parametrize("rows", range(1, 20))
@pytest.mark.parametrize("channels", [2, 3, 128])
def test_each_row_of_a_small_batch_goes_where_it_would_go_among_many(
    rows: int, channels: int
) -> None:
    numbers = pa.array(np.random.default_rng(rows).integers(-(2**63), 2**63 - 1, 200), pa.int64())
    whole = pa.record_batch(
        [numbers, numbers], schema=pa.schema([("key", "int64"), ("n", "int64")])
    )
    by_number = HashByKey(KeySpec((0,), ValueType.of("long"), ("key",)))
    starts = range(0, 200 - rows, rows)
    (among_many,) = split(by_number, channels, [whole])
    channel_of = {number: channel for channel, found in among_many for number in found}
    for start, parts in zip(
        starts, split(by_number, channels, [whole.slice(n, rows) for n in starts]), strict=True
    ):
        some = numbers.slice(start, rows).to_pylist()
        expected = {channel_of[number] for number in some}
        assert [channel for channel, _ in parts] == sorted(expected)
        for channel, found in parts:
            assert found == [number for number in some if channel_of[number] == channel]


def test_a_slice_of_a_batch_is_hashed_by_its_own_rows() -> None:
    whole = batch_of([f"key-{n}" for n in range(50)])
    (all_parts,) = split(BY_KEY, 3, [whole])
    (parts,) = split(BY_KEY, 3, [whole.slice(20, 20)])
    channel_of = {row: channel for channel, rows in all_parts for row in rows}
    assert {row: c for c, rows in parts for row in rows} == {
        row: channel_of[row] for row in range(20, 40)
    }


def test_several_key_columns_are_hashed_together() -> None:
    key = HashByKey(KeySpec((0, 1), ValueType.of("struct<key:string,n:bigint>"), ("key", "n")))
    batch = batch_of(["same"] * 200)
    (parts,) = split(key, 4, [batch])
    groups = key_groups([batch.column(0), batch.column(1)], 128)
    assert len(parts) == 4
    assert all(groups[row] in range_of(channel, 4, 128) for channel, rows in parts for row in rows)


def test_rebalancing_deals_whole_batches_out_in_turn() -> None:
    batches = [batch_of(["a", "b"])] * 4
    assert split(Rebalance(), 3, batches) == [
        [(0, [0, 1])],
        [(1, [0, 1])],
        [(2, [0, 1])],
        [(0, [0, 1])],
    ]


def test_each_sender_starts_dealing_out_at_a_channel_of_its_own() -> None:
    firsts = [split(Rebalance(), 3, [batch_of(["a"])], subtask=s)[0][0][0] for s in range(5)]
    assert firsts == [0, 1, 2, 0, 1]


def test_broadcasting_gives_everything_to_everyone() -> None:
    (parts,) = split(Broadcast(), 3, [batch_of(["a", "b"])])
    assert parts == [(0, [0, 1]), (1, [0, 1]), (2, [0, 1])]


def test_forwarding_has_one_channel() -> None:
    assert split(Forward(), 3, [batch_of(["a", "b"])], subtask=2) == [[(0, [0, 1])]]


def test_where_there_is_one_receiver_everything_goes_to_it() -> None:
    for partitioning in (BY_KEY, Rebalance(), Broadcast()):
        assert split(partitioning, 1, [batch_of(["a", "b"])]) == [[(0, [0, 1])]]

"""The parts of the RocksDB backend by themselves: bytes, rows at hand, memory, spilling."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.spec import KeySpec, OperatorSpec
from mainstay.runtime.worker.member import Member
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.cached.cells import FEW, cells_of
from mainstay.state.backends.cached.live import LiveRows
from mainstay.state.backends.cached.rows import RowKeys, hash_of_whole
from mainstay.state.backends.cached.tables import CachedValues
from mainstay.state.backends.cached.writing import write_rows
from mainstay.state.backends.rocksdb import memory as rocksdb_memory
from mainstay.state.backends.rocksdb.database import RocksDatabase
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.state.declaration import ValueState
from mainstay.state.info import StateInfo
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.kinds import VALUE
from mainstay.state.operations import DELETE, PUT, columns_of
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType
from tests.key_hashes import hash_keys
from tests.members import keyed, opened

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


# ------------------------------------------------------------ bytes


@given(LONGS)
def test_the_hash_of_one_whole_number_is_the_hash_of_the_column(number: int) -> None:
    assert hash_of_whole(number) == int(hash_keys([number], pa.int64())[0])


@given(st.lists(LONGS, min_size=1, max_size=3), st.booleans())
def test_a_few_row_keys_are_those_of_many(numbers: list[int], is_map: bool) -> None:
    rows = RowKeys(7, StoredKey.of(ValueType.of("long")), 128, is_map=is_map)
    many = rows.of([*numbers, *range(FEW)])
    assert rows.of(numbers) == many[: len(numbers)]
    assert rows.keys(many) == [*numbers, *range(FEW)]


@pytest.mark.parametrize(
    ("ddl", "kept"),
    [
        ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
        ("short", st.integers(-(1 << 15), (1 << 15) - 1)),
        ("boolean", st.booleans()),
        ("double", st.floats(allow_nan=False)),
        ("date", st.dates()),
        ("decimal(20,2)", st.decimals(-10000, 10000, places=2)),
        ("string", st.text(max_size=4)),
        ("struct<a: long, b: string>", st.tuples(st.integers(0, 300), st.text(max_size=2))),
    ],
)
@given(st.data())
def test_row_keys_come_in_the_order_in_which_they_lie(ddl: str, kept: Any, data: Any) -> None:
    stored = StoredKey.of(ValueType.of(ddl))
    column = stored.key.to_array(stored.key.freeze_many(data.draw(st.lists(kept | st.none()))))
    if column.null_count and data.draw(st.booleans()):
        column = column.drop_null()
    rows, groups = RowKeys(3, stored, 16, is_map=False), stored.groups(column, 16)
    unsorted = rows.of_column(column, groups)
    row_keys, order = rows.in_order(column, groups)
    assert row_keys == sorted(unsorted)
    # Of those that are equal the later row comes later.
    assert order.tolist() == sorted(range(len(unsorted)), key=unsorted.__getitem__)


def test_the_last_of_several_rows_of_a_key_is_what_a_database_has(tmp_path: Path) -> None:
    database = RocksDatabase(
        tmp_path / "database", rocksdb_memory.shared_memory(RocksSettings(32 << 20))
    )
    info = StateInfo("total", VALUE, ValueType.of("long"))
    table = CachedValues(info, StoredKey.of(ValueType.of("long")), 0, 16)
    said = [(1, PUT, 10), (2, PUT, 20), (1, DELETE, None), (3, PUT, 30), (2, PUT, 21), (1, PUT, 11)]
    keys, ops, kept = zip(*[*said, (3, DELETE, None)], strict=True)
    columns = [pa.array(keys), pa.array(ops, pa.int8()), pa.array(kept, pa.int64())]
    rows = pa.table(columns, schema=columns_of(info, ValueType.of("long")))
    groups = table.stored_key.groups(columns[0], 16)
    write_rows(database, table, StateTable("total", rows, groups), 1)
    table.database = database
    assert [table.found(key) for key in (1, 2, 3)] == [11, 21, None]
    database.close()


def test_the_bytes_of_rows_do_not_change() -> None:
    """Part of the durable format: a checkpoint that was written once must be read for ever."""
    key = RowKeys(258, StoredKey.of(ValueType.of("long")), 128, is_map=False)
    assert key.of([5]) == [bytes.fromhex("005a0102010500000000000000")]
    assert key.of([None])[0][2:] == bytes.fromhex("010200")
    entry = RowKeys(0, StoredKey.of(ValueType.of("string")), 128, is_map=True)
    assert entry.of(["ab"])[0][2:] == bytes.fromhex("000003000000016162")
    nested = ValueType.of("struct<a:int,b:array<string>>")
    column = nested.to_array([nested.freeze((1, ["x", None]))])
    assert cells_of(nested).encode(column) == [bytes.fromhex("0101000000010200000001010000007800")]


@pytest.mark.parametrize("ddl", ["double", "float", "struct<a:double>"])
def test_equal_keys_are_equal_bytes(ddl: str) -> None:
    kind = ValueType.of(ddl)
    wrap = (lambda value: (value,)) if ddl.startswith("struct") else (lambda value: value)
    cells = cells_of(kind, is_key=True)
    given = [0.0, -0.0, math.nan, -math.nan]
    zero, negative, nan, other = cells.encode(
        kind.to_array([kind.freeze(wrap(value)) for value in given])
    )
    assert zero == negative
    assert nan == other
    kept = cells_of(kind).encode(kind.to_array([kind.freeze(wrap(value)) for value in given]))
    assert kept[0] != kept[1]


# ------------------------------------------------------------ rows at hand


def test_rows_at_hand_are_bounded_and_those_in_use_stay() -> None:
    loaded: list[Any] = []

    def load(keys: list[Any]) -> None:
        loaded.extend(keys)
        live.update((key, -key) for key in keys)

    live = LiveRows(load)
    for key in range(1, 1000):
        assert live[key] == -key
        assert live[1] == -1
        live.relieve(100)
        assert len(live) + len(live._older) <= 102
    assert loaded.count(1) == 1
    live.bring([1, 5, 5, 999])
    assert loaded[-1] == 5
    assert loaded.count(5) == 2


def test_what_is_known_to_be_absent_is_not_looked_for_again() -> None:
    loads: list[list[Any]] = []

    def load(keys: list[Any]) -> None:
        loads.append(keys)
        live.update(dict.fromkeys(keys))

    live = LiveRows(load)
    assert live.get("a") is live.get("a") is None
    assert live.get("a", 5) == 5
    assert loads == [["a"]]


# ------------------------------------------------------------ settings


def test_the_parts_of_the_memory_leave_room() -> None:
    settings = ms.RocksDB(memory="1 GiB").parsed()
    assert settings.memory_bytes == 1 << 30
    parts = settings.block_cache_bytes + settings.write_buffer_bytes + settings.rows_bytes
    assert parts < settings.memory_bytes


@pytest.mark.parametrize("memory", ["lots", "12 parsecs", "1MiB", -5])
def test_a_memory_that_is_none_is_refused(memory: Any) -> None:
    with pytest.raises(GraphError, match="memory="):
        ms.RocksDB(memory=memory)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(GraphError, match=r"state='disk' is unknown.*RocksDB"):
        ms.Environment(state="disk")


def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(GraphError, match=r"mainstay\[rocksdb\]"):
        rocksdb_memory.load_rocksdict()
    with pytest.raises(GraphError, match=r"mainstay\[rocksdb\]"):
        ms.RocksDB()


# ------------------------------------------------------------ spilling


class _Nothing:
    def build(self) -> Operator:
        return Operator()


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    spec = OperatorSpec(
        "totals", "totals", _Nothing(), (info(),), KeySpec((0,), ValueType.of("long"), ("key",))
    )
    settings = RocksSettings(1 << 20, str(tmp_path))
    member = opened(spec, 0, 1, 1, 128, KeyGroupRange(0, 127), settings)
    yield member
    member.close()


def info() -> Any:
    return replace(ValueState("long").info(), name="n")


def written(member: Member, storage: MemoryStorage) -> None:
    for segment in keyed(member).chain.segments:
        if not segment.is_durable:
            *_, tables = keyed(member).encode(segment)
            keyed(member).written(segment, keyed(member).write(storage, segment.id, tables), tables)


def test_a_segment_that_grows_large_is_frozen_before_its_epoch_and_is_in_it(
    member: Member,
) -> None:
    storage = MemoryStorage()
    handle = keyed(member).backend.handles["n"]
    spilled = []
    for start in range(0, 5000, 100):
        keys = list(range(start, start + 100))
        handle.put_many(keys, keys)
        member.relieve()
        if (segment := keyed(member).spill()) is not None:
            spilled.append(segment)
    assert len(spilled) > 3
    assert keyed(member).backend.is_full
    cut = member.freeze(1)
    assert cut.segments[: len(spilled)] == tuple(spilled)
    written(member, storage)
    while (work := keyed(member).next_work(storage)) is not None:
        work.done(work.run())
    assert not keyed(member).backend.is_full
    assert handle.get_many(np.arange(5000)) == list(range(5000))
    # Rows at hand take a part of the memory, whatever was read.
    member.relieve()
    assert len(keyed(member).backend.tables["n"].live) < 1000


def test_a_segment_is_taken_in_only_when_it_is_durable_and_in_order(
    member: Member,
) -> None:
    storage = MemoryStorage()
    for number in (1, 2):
        keyed(member).backend.handles["n"].put_many([1, 2], [number, number])
        member.freeze(number)
    first, second = keyed(member).chain.segments
    assert keyed(member).next_work(storage) is None
    *_, tables = keyed(member).encode(second)
    keyed(member).written(second, keyed(member).write(storage, second.id, tables), tables)
    assert keyed(member).next_work(storage) is None
    written(member, storage)
    for waiting in ({second.id}, set()):
        work = keyed(member).next_work(storage)
        assert work is not None
        assert keyed(member).next_work(storage) is None
        work.done(work.run())
        assert keyed(member).backend.not_absorbed == waiting
    assert first.is_durable


def test_a_table_that_is_asked_row_by_row_is_asked_for_the_batch_from_then_on(
    member: Member,
) -> None:
    storage = MemoryStorage()
    table = keyed(member).backend.tables["n"]
    keyed(member).backend.handles["n"].put_many(range(10), range(10))
    member.freeze(1)
    written(member, storage)
    while (work := keyed(member).next_work(storage)) is not None:
        work.done(work.run())
    table.live.forget()
    keyed(member).backend.prefetch([1, 2])
    assert not table.live.has(1), "a table that nobody reads is not read ahead"
    assert table.read(1) == 1
    keyed(member).backend.prefetch([1, 2, 3, 3])
    assert [table.live.has(key) for key in (1, 2, 3, 4)] == [True, True, True, False]


def test_a_disk_that_fails_ends_the_attempt_with_a_remedy(member: Member) -> None:
    storage = MemoryStorage()
    keyed(member).backend.handles["n"].put_many([1], [1])
    member.freeze(1)
    written(member, storage)
    work = keyed(member).next_work(storage)
    assert work is not None
    work.failed(OSError("no space left"))
    with pytest.raises(ms.errors.MainstayError, match=r"no space left.*directory="):
        keyed(member).next_work(storage)


# ------------------------------------------------------------ closing


class Borrowed:
    """A database that, as the library's, cannot be closed while it is written to."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.is_writing, self.may_go_on = threading.Event(), threading.Event()

    def write(self, *given: Any) -> None:
        self.is_writing.set()
        assert self.may_go_on.wait(30)
        self._db.write(*given)
        self.is_writing.clear()

    def close(self) -> None:
        if self.is_writing.is_set():
            raise RuntimeError("Already borrowed")
        self._db.close()


def test_a_database_that_is_written_to_is_closed_after_that(tmp_path: Path) -> None:
    place = tmp_path / "database"
    database = RocksDatabase(place, rocksdb_memory.shared_memory(RocksSettings(32 << 20)))
    borrowed = database._db = Borrowed(database._db)
    database._to_shut = [borrowed]
    writer = threading.Thread(target=database.write, args=([(b"key", b"value")],))
    writer.start()
    assert borrowed.is_writing.wait(30)
    database.close()
    assert place.exists()
    borrowed.may_go_on.set()
    writer.join(30)
    assert not place.exists()

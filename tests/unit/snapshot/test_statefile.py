from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import DamagedFileError, ProtocolError, RestoreError
from mainstay.snapshot import statewriter
from mainstay.snapshot.drops import FIRST_PANE, Drop
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.statefile import StateFile, StateTable, encode_state_file, open_state_file
from mainstay.snapshot.statefooter import STATE_FILE_FORMAT
from mainstay.snapshot.statewriter import StateFileWriter
from mainstay.state.operations import APPEND, PUT

PATH = "state/count/a0001/s0000-a1-s0-e1.msty"


class CountingStorage(MemoryStorage):
    """Notes every read as (start, bytes read)."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int]] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, start, length)
        self.reads.append((start, len(data)))
        return data


def store(
    *tables: StateTable, storage: MemoryStorage | None = None, **options: Any
) -> tuple[MemoryStorage, FileRef]:
    storage = storage or MemoryStorage()
    settings = {"is_base": False, "max_parallelism": 128, "hash_id": "h1", **options}
    file = encode_state_file(tables, **settings)
    storage.write(PATH, file.data)
    return storage, file.ref(PATH)


def stored(*tables: StateTable, **options: Any) -> StateFile:
    return open_state_file(*store(*tables, **options))


def numbers(groups: list[int] | np.ndarray[Any, Any], name: str = "total") -> StateTable:
    """One row per given key-group; the value is the row's place in the order of application."""
    table = pa.table({"value": pa.array(range(len(groups)), pa.int64())})
    return StateTable(name, table, np.asarray(groups, dtype=np.int64))


def rows(state: StateTable) -> list[tuple[int, int]]:
    values = state.table.column("value").to_pylist()
    return list(zip(state.groups.tolist(), values, strict=True))


def many_types() -> pa.Table:
    struct = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "bool": (pa.bool_(), [True, None, False, True]),
        "int8": (pa.int8(), [1, -128, None, 127]),
        "uint64": (pa.uint64(), [2**64 - 1, 0, None, 1]),
        "double": (pa.float64(), [0.5, float("inf"), None, -0.0]),
        "decimal": (pa.decimal128(38, 10), [Decimal("1.5"), None, Decimal("-9e20"), Decimal(0)]),
        "string": (pa.string(), ["", None, "größe", "a" * 1000]),
        "large": (pa.large_string(), ["x", "y", None, ""]),
        "binary": (pa.binary(), [b"", b"\x00\xff", None, b"z"]),
        "fixed": (pa.binary(3), [b"abc", None, b"def", b"ghi"]),
        "date": (pa.date32(), [dt.date(2020, 2, 29), None, dt.date(1, 1, 1), dt.date.max]),
        "time": (pa.timestamp("us", "UTC"), [0, None, 2**50, -1]),
        "null": (pa.null(), [None] * 4),
        "list": (pa.list_(pa.int64()), [[1, None], [], None, [3] * 50]),
        "map": (pa.map_(pa.string(), pa.float32()), [[("a", 1.0)], [], None, [("b", None)]]),
        "struct": (struct, [{"x": 1, "y": ["p", None]}, None, {"x": None, "y": []}, None]),
        "nested": (pa.list_(pa.map_(pa.int32(), struct)), [[[(1, None)]], None, [], [None]]),
        "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None, "a"]),
    }
    arrays = {name: pa.array(values, kind) for name, (kind, values) in columns.items()}
    return pa.table(arrays).replace_schema_metadata({"made": "by hand"})


@pytest.mark.parametrize("compression", ["lz4", "zstd", None])
def test_every_type_comes_back_as_it_was(compression: str | None) -> None:
    table = many_types()
    state = StateTable("everything", table, np.array([3, 1, 3, 0]))
    file = stored(state, compression=compression)
    found = file.read("everything", 0, 127)
    assert found.table.equals(table.take([3, 1, 0, 2]), check_metadata=True)
    assert found.groups.tolist() == [0, 1, 3, 3]
    assert file.schema("everything").equals(table.schema, check_metadata=True)


def test_a_file_says_what_it_was_told() -> None:
    file = stored(numbers([1], "b"), numbers([2], "a"), is_base=True, hash_id="h7")
    assert file.states == ("b", "a")
    assert file.is_base is True
    assert file.max_parallelism == 128
    assert file.hash_id == "h7"
    assert stored(numbers([1])).is_base is False


def test_an_encoded_file_knows_its_size_and_rows() -> None:
    file = encode_state_file(
        [numbers([1, 2], "a"), numbers([3], "b")], is_base=False, max_parallelism=8, hash_id="h"
    )
    assert (file.rows, file.size_bytes) == (3, len(bytes(file.data)))
    assert file.ref("p") == FileRef("p", file.size_bytes, file.checksum)


def test_rows_are_sorted_by_key_group_and_keep_their_order_within_one() -> None:
    file = stored(numbers([5, 2, 5, 9, 2, 5]))
    assert rows(file.read("total", 0, 127)) == [(2, 1), (2, 4), (5, 0), (5, 2), (5, 5), (9, 3)]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 1, []),
        (2, 2, [(2, 1), (2, 4)]),
        (3, 4, []),
        (3, 9, [(5, 0), (5, 2), (5, 5), (9, 3)]),
        (5, 8, [(5, 0), (5, 2), (5, 5)]),
        (10, 127, []),
        (9, 2, []),
    ],
)
def test_a_range_holds_its_key_groups_and_no_others(
    first: int, last: int, expected: list[tuple[int, int]]
) -> None:
    file = stored(numbers([5, 2, 5, 9, 2, 5]))
    assert rows(file.read("total", first, last)) == expected


def test_a_range_without_rows_still_has_the_schema() -> None:
    table = many_types()
    found = stored(StateTable("s", table, np.array([3, 1, 3, 0]))).read("s", 50, 60)
    assert found.table.num_rows == 0
    assert found.table.schema.equals(table.schema)


def test_a_state_may_be_empty() -> None:
    file = stored(StateTable("none", many_types().slice(0, 0), np.array([], dtype=np.int64)))
    assert file.read("none", 0, 127).table.num_rows == 0
    assert file.read("none", 0, 127).table.schema.equals(many_types().schema)


def test_a_file_may_hold_no_state_at_all() -> None:
    file = stored()
    assert file.states == ()
    file.verify()


def test_a_strange_state_is_refused_by_name() -> None:
    with pytest.raises(RestoreError, match=rf"{PATH} holds no state 'other'; it holds total"):
        stored(numbers([1])).read("other", 0, 127)


def test_the_highest_key_group_is_kept() -> None:
    file = stored(numbers([32767, 0]), max_parallelism=32768)
    assert rows(file.read("total", 32767, 32767)) == [(32767, 0)]


def test_tables_of_several_chunks_and_slices_are_written_whole() -> None:
    pieces = [numbers(list(range(20))).table.slice(5, 3) for _ in range(4)]
    state = StateTable("total", pa.concat_tables(pieces), np.arange(12)[::-1])
    assert rows(stored(state).read("total", 0, 127)) == list(enumerate([7, 6, 5] * 4))


def test_large_tables_are_cut_into_chunks_of_bounded_rows() -> None:
    groups = np.random.default_rng(7).integers(0, 128, 200_000)
    file = stored(numbers(groups))
    whole = file.read("total", 0, 127)
    order = np.argsort(groups, kind="stable")
    assert np.array_equal(whole.table.column("value").to_numpy(), order)
    assert np.array_equal(whole.groups, groups[order])
    middle = file.read("total", 40, 80)
    inside = (groups[order] >= 40) & (groups[order] <= 80)
    assert np.array_equal(middle.table.column("value").to_numpy(), order[inside])


def test_a_range_is_read_without_reading_the_whole_file() -> None:
    storage = CountingStorage()
    noise = np.random.default_rng(1).integers(0, 2**62, 600_000)
    state = StateTable("total", pa.table({"value": noise}), np.arange(600_000) % 128)
    _, ref = store(state, storage=storage)
    file = open_state_file(storage, ref)
    assert [size for _, size in storage.reads] == [64 << 10]
    found = file.read("total", 64, 65)
    assert found.table.num_rows == 2 * (600_000 // 128)
    assert len(storage.reads) == 2
    assert sum(size for _, size in storage.reads) < ref.size_bytes / 3


def test_a_small_file_is_read_once() -> None:
    storage = CountingStorage()
    _, ref = store(numbers([1, 2, 3]), storage=storage)
    file = open_state_file(storage, ref)
    file.read("total", 0, 127)
    file.verify()
    assert storage.reads == [(0, ref.size_bytes)]


def test_a_footer_larger_than_the_first_read_is_read_too() -> None:
    storage = CountingStorage()
    tables = [numbers(np.arange(5000), f"state-{index}") for index in range(5)]
    _, ref = store(*tables, storage=storage, max_parallelism=32768)
    file = open_state_file(storage, ref)
    assert len(storage.reads) == 2
    assert rows(file.read("state-3", 4998, 32767)) == [(4998, 4998), (4999, 4999)]
    file.verify()


def test_sorting_by_parts_gives_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.random.default_rng(3).integers(0, 128, 5000)
    whole = stored(numbers(groups)).read("total", 0, 127)
    monkeypatch.setattr(statewriter, "_SORT_BYTES", 6000)
    parts = stored(numbers(groups)).read("total", 0, 127)
    assert parts.table.equals(whole.table)
    assert np.array_equal(parts.groups, whole.groups)


def test_sorting_by_parts_copes_with_one_crowded_key_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statewriter, "_SORT_BYTES", 100)
    groups = [9] + [4] * 300 + [2]
    expected = [(2, 301), *((4, row) for row in range(1, 301)), (9, 0)]
    assert rows(stored(numbers(groups)).read("total", 0, 127)) == expected


def outcome(storage: MemoryStorage, ref: FileRef) -> list[StateTable] | None:
    """Everything that can be read from a file, or None when damage is reported."""
    try:
        file = open_state_file(storage, ref)
        return [file.read(name, 0, 127) for name in file.states]
    except RestoreError as error:
        if PATH not in str(error):
            raise
        return None


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_noticed_or_harmless(flip: int) -> None:
    storage, ref = store(numbers([1, 2, 1], "a"), numbers([5], "b"))
    data = storage.read(PATH)
    whole = outcome(storage, ref)
    assert whole is not None
    harmless = set()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= flip
        storage.write(PATH, damaged)
        found = outcome(storage, ref)
        if found is not None:
            harmless.add(position)
            assert [rows(state) for state in found] == [rows(state) for state in whole]
    # Only the header is not needed to read the rows, and verify() reads that as well.
    assert harmless == set(range(8))


def test_verifying_notices_every_flipped_byte() -> None:
    storage, ref = store(numbers([1, 2, 1], "a"), numbers([5], "b"))
    data = storage.read(PATH)
    open_state_file(storage, ref).verify()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        storage.write(PATH, damaged)
        with pytest.raises(RestoreError, match=PATH):
            open_state_file(storage, ref).verify()


def test_every_truncation_is_noticed() -> None:
    storage, ref = store(numbers([1, 2, 1]))
    data = storage.read(PATH)
    for length in range(len(data)):
        storage.write(PATH, data[:length])
        with pytest.raises(DamagedFileError, match=f"expected {ref.size_bytes} bytes, found fewer"):
            open_state_file(storage, ref)


def test_a_longer_file_is_noticed() -> None:
    storage, ref = store(numbers([1, 2, 1]))
    storage.write(PATH, storage.read(PATH) + b"\x00")
    with pytest.raises(DamagedFileError, match=f"expected {ref.size_bytes} bytes, found more"):
        open_state_file(storage, ref)


def test_damage_in_the_middle_of_a_large_file_is_noticed_when_it_is_read() -> None:
    state = StateTable("total", pa.table({"value": np.arange(200_000)}), np.arange(200_000) // 2000)
    storage, ref = store(state, compression=None)
    damaged = bytearray(storage.read(PATH))
    damaged[len(damaged) // 2] ^= 1
    storage.write(PATH, damaged)
    file = open_state_file(storage, ref)
    assert file.read("total", 0, 10).table.num_rows == 22_000
    with pytest.raises(DamagedFileError, match=r"expected for the .* bytes at .* checksum"):
        file.read("total", 0, 127)
    with pytest.raises(DamagedFileError, match="restore an older epoch"):
        file.verify()


def test_a_file_that_shrinks_after_it_was_opened_is_noticed() -> None:
    state = StateTable("total", pa.table({"value": np.arange(100_000)}), np.arange(100_000) // 1000)
    storage, ref = store(state, compression=None)
    file = open_state_file(storage, ref)
    storage.write(PATH, storage.read(PATH)[:1000])
    with pytest.raises(DamagedFileError, match=PATH):
        file.read("total", 0, 127)


def test_a_missing_file_is_reported_by_name() -> None:
    storage, ref = store(numbers([1]))
    storage.delete(PATH)
    with pytest.raises(DamagedFileError, match=f"{PATH}.*found none.*older epoch"):
        open_state_file(storage, ref)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 20, b"MSTY" * 100])
def test_other_content_of_the_right_size_is_refused(content: bytes) -> None:
    storage = MemoryStorage()
    storage.write(PATH, content)
    with pytest.raises(DamagedFileError, match=PATH):
        open_state_file(storage, FileRef(PATH, len(content), "crc32:00000000"))


def test_another_intact_file_in_its_place_is_noticed() -> None:
    storage, ref = store(numbers([1]))
    _, other = store(numbers([2]), storage=storage)
    assert other.checksum != ref.checksum
    with pytest.raises(DamagedFileError, match=f"expected checksum {ref.checksum}"):
        open_state_file(storage, replace(other, checksum=ref.checksum))


def test_a_newer_format_is_refused_by_name() -> None:
    storage, ref = store(numbers([1]))
    data = bytearray(storage.read(PATH))
    data[-8] = STATE_FILE_FORMAT + 1
    storage.write(PATH, data)
    with pytest.raises(RestoreError, match=f"{PATH} has state file format {STATE_FILE_FORMAT + 1}"):
        open_state_file(storage, ref)


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (lambda: [numbers([1]), numbers([1])], "one state twice"),
        (lambda: [StateTable("s", numbers([1]).table, np.array([1, 2]))], "'s' has 1 rows"),
        (lambda: [numbers([128])], "from 128 to 128"),
        (lambda: [numbers([3, -1])], "from -1 to 3"),
    ],
)
def test_tables_that_make_no_file_are_refused(
    tables: Callable[[], list[StateTable]], why: str
) -> None:
    with pytest.raises(ProtocolError, match=why):
        encode_state_file(tables(), is_base=False, max_parallelism=128, hash_id="h")


def test_a_state_may_be_written_in_pieces_of_whole_key_groups() -> None:
    writer = StateFileWriter(is_base=True, max_parallelism=128, hash_id="h")
    groups = [[2, 1, 2], [], [7, 7], [9]]
    writer.write("total", numbers([]).table.schema, map(numbers, groups))
    file = writer.finish()
    storage = MemoryStorage()
    storage.write(PATH, file.data)
    read = open_state_file(storage, file.ref(PATH))
    assert file.rows == 6
    assert rows(read.read("total", 0, 127)) == [(1, 1), (2, 0), (2, 2), (7, 0), (7, 1), (9, 0)]
    assert rows(read.read("total", 2, 7)) == [(2, 0), (2, 2), (7, 0), (7, 1)]
    assert rows(read.read("total", 8, 127)) == [(9, 0)]
    found, counts = read.counts("total")
    assert (found.tolist(), counts.tolist()) == ([1, 2, 7, 9], [1, 2, 2, 1])
    read.verify()


@pytest.mark.parametrize("groups", [[[1, 2], [2, 3]], [[5], [], [4]]])
def test_pieces_that_are_not_in_the_order_of_key_groups_are_refused(
    groups: list[list[int]],
) -> None:
    writer = StateFileWriter(is_base=True, max_parallelism=128, hash_id="h")
    with pytest.raises(ProtocolError, match=r"must lie in (3|6)\.\.127"):
        writer.write("total", numbers([]).table.schema, map(numbers, groups))


def test_who_reads_on_reads_no_chunk_twice() -> None:
    groups = np.arange(300_000) // 3000
    noise = np.random.default_rng(1).integers(0, 1 << 60, 300_000)
    state = StateTable("total", pa.table({"value": noise}), groups)
    storage = CountingStorage()
    _, ref = store(state, storage=storage)
    file = open_state_file(storage, ref)
    storage.reads.clear()
    parts = [file.read("total", first, first + 9) for first in range(0, 100, 10)]
    assert pa.concat_tables([part.table for part in parts]).equals(state.table)
    assert [start for start, _ in storage.reads] == sorted({start for start, _ in storage.reads})
    assert sum(length for _, length in storage.reads) <= ref.size_bytes


def test_what_is_dropped_is_read_with_the_rows_of_its_key_groups() -> None:
    drops = (Drop(FIRST_PANE, 7, 0, 127), Drop(9, 9, 0, 1))
    storage, ref = store(replace(numbers([1, 2]), drops=drops))
    file = open_state_file(storage, ref)
    assert file.read("total", 0, 127).drops == drops
    assert file.read("total", 1, 5).drops == (Drop(FIRST_PANE, 7, 1, 5), Drop(9, 9, 1, 1))
    assert file.find("total", 5, 0).drops == (Drop(FIRST_PANE, 7, 5, 5),)
    first, *others = file.read("total", 0, 127).in_arrays()
    assert first.drops == drops
    assert not any(other.drops for other in others)


def test_a_file_without_drops_is_of_the_first_format() -> None:
    storage, _ = store(numbers([1]))
    assert storage.read(PATH)[-8] == 1
    storage, _ = store(replace(numbers([1]), drops=(Drop(1, 2, 0, 127),)))
    assert storage.read(PATH)[-8] == 2


@pytest.mark.parametrize(("op", "format"), [(APPEND, STATE_FILE_FORMAT), (PUT, 1)])
def test_a_file_whose_rows_append_to_accumulators_is_of_the_third_format(
    op: int, format: int
) -> None:
    values = pa.array([{"items": [1, 2]}], pa.struct([("items", pa.list_(pa.int64()))]))
    table = pa.table({"key": [1], "op": pa.array([op], pa.int8()), "value": values})
    storage, _ = store(StateTable("total", table, np.array([5], np.uint16)))
    assert storage.read(PATH)[-8] == format

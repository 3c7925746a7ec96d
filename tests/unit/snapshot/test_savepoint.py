from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstay.errors import DamagedFileError, RestoreError, SavepointError
from mainstay.schema import to_type
from mainstay.snapshot import savepoint_files
from mainstay.snapshot.manifest import FileRef, StateSchema
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.savepoint import (
    SAVEPOINT_FILE,
    UNFINISHED_FILE,
    Savepoint,
    SavepointFile,
    SavepointOperator,
    SavepointState,
    discard,
    keyed_path,
    operator_path,
    publish,
    read_savepoint,
    reserve,
)
from mainstay.snapshot.savepoint_files import (
    KeyedRows,
    read_keyed,
    read_units,
    write_keyed,
    write_units,
)

PATH = "state/totals/total/part-00000.parquet"


def a_savepoint() -> Savepoint:
    file = SavepointFile(FileRef(PATH, 10, "crc32:0"), 3, 0, 15)
    units = SavepointFile(FileRef("operator/totals/seen.parquet", 10, "crc32:1"), 2)
    states = (
        SavepointState(StateSchema("total", "value", "long"), (file,)),
        SavepointState(StateSchema("seen", "operator-list", "long", None, "split"), (units,)),
    )
    operator = SavepointOperator("totals", 2, "string", ("customer",), states)
    return Savepoint(
        "job", 7, 1.5, "exactly_once", 16, "mainstay-1", {"totals": operator}, {"s": 1}
    )


def rows(groups: list[int], values: Any = None) -> KeyedRows:
    keys = pa.array([f"k{n}" for n in range(len(groups))])
    values = pa.array(range(len(groups)), pa.int64()) if values is None else values
    return KeyedRows("total", pa.table({"key": keys, "value": values}), np.array(groups))


def read_all(storage: MemoryStorage, ref: FileRef, first: int = 0, last: int = 999) -> list[Any]:
    found = []
    for part in read_keyed(storage, ref, first, last):
        keys, values = part.table.column("key"), part.table.column("value")
        found += zip(part.groups.tolist(), keys.to_pylist(), values.to_pylist(), strict=True)
    return found


# ---------------------------------------------------------------- savepoint.json


def test_the_description_comes_back_as_it_was() -> None:
    assert Savepoint.from_bytes(a_savepoint().to_bytes()) == a_savepoint()


def test_the_description_of_another_format_is_refused() -> None:
    data = a_savepoint().to_bytes().replace(b'"format": 2', b'"format": 9')
    with pytest.raises(RestoreError, match=r"savepoint format 9; .* reads formats up to 4"):
        Savepoint.from_bytes(data)


def test_a_description_of_the_version_that_sealed_none_is_read() -> None:
    document = json.loads(a_savepoint().to_bytes())
    del document["checksum"]
    data = json.dumps({**document, "format": 1}).encode()
    assert Savepoint.from_bytes(data) == a_savepoint()


def test_every_flipped_bit_of_a_description_is_noticed_or_harmless() -> None:
    data = a_savepoint().to_bytes()
    for place in range(len(data)):
        flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        found = description_or_why_not(flipped)
        assert found == a_savepoint() or "savepoint.json" in found, place


def description_or_why_not(data: bytes) -> Any:
    try:
        return Savepoint.from_bytes(data)
    except RestoreError as error:
        return str(error)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": 1}', b"\xff"])
def test_what_is_no_description_is_refused_as_damaged(data: bytes) -> None:
    with pytest.raises(DamagedFileError, match=r"savepoint\.json is not the description"):
        Savepoint.from_bytes(data)


def test_no_path_in_it_is_absolute() -> None:
    document = json.loads(a_savepoint().to_bytes())
    paths = [f["path"] for s in document["operators"]["totals"]["states"] for f in s["files"]]
    assert paths
    assert not any(path.startswith("/") or "://" in path for path in paths)
    assert keyed_path("a/b", "c d", 3) == "state/a%2Fb/c%20d/part-00003.parquet"
    assert operator_path("a/b", "c") == "operator/a%2Fb/c.parquet"


def test_a_savepoint_exists_from_its_description_on() -> None:
    storage = MemoryStorage()
    reserve(storage, "there")
    with pytest.raises(RestoreError, match="no savepoint at 'there': it was never finished"):
        read_savepoint(storage, "there")
    publish(storage, a_savepoint())
    assert read_savepoint(storage, "there") == a_savepoint()
    assert storage.list("") == [SAVEPOINT_FILE]


def test_a_folder_that_is_no_savepoint_is_refused_by_name() -> None:
    with pytest.raises(RestoreError, match=r"at 'there': it has no savepoint\.json"):
        read_savepoint(MemoryStorage(), "there")


def test_a_target_that_is_not_empty_is_refused_by_name() -> None:
    storage = MemoryStorage()
    storage.write("mine", b"x")
    with pytest.raises(SavepointError, match="something at 'there' already"):
        reserve(storage, "there")
    assert storage.list("") == ["mine"]


def test_an_unfinished_savepoint_is_deleted_and_a_finished_one_never() -> None:
    storage = MemoryStorage()
    reserve(storage, "there")
    storage.write("state/x", b"x")
    discard(storage)
    assert storage.list("") == []
    publish(storage, a_savepoint())
    storage.write(UNFINISHED_FILE, b"x")
    discard(storage)
    assert SAVEPOINT_FILE in storage.list("")


def test_a_description_that_somebody_else_wrote_is_not_replaced() -> None:
    storage = MemoryStorage()
    storage.write(SAVEPOINT_FILE, b"theirs")
    with pytest.raises(SavepointError, match="somebody else"):
        publish(storage, a_savepoint())
    assert storage.read(SAVEPOINT_FILE) == b"theirs"


# ---------------------------------------------------------------- keyed state


def test_rows_come_back_sorted_by_key_group_and_with_their_state() -> None:
    storage = MemoryStorage()
    file = write_keyed(storage, PATH, rows([5, 2, 5, 0]), "totals")
    assert (file.rows, file.first_group, file.last_group) == (4, 0, 5)
    assert read_all(storage, file.file) == [(0, "k3", 3), (2, "k1", 1), (5, "k0", 0), (5, "k2", 2)]
    (part,) = read_keyed(storage, file.file, 0, 9)
    assert part.state == "total"


def test_any_reader_of_parquet_reads_it() -> None:
    storage = MemoryStorage()
    write_keyed(storage, PATH, rows([5, 2]), "totals")
    table = pq.read_table(pa.BufferReader(storage.read(PATH)))
    assert table.to_pydict() == {"key_group": [2, 5], "key": ["k1", "k0"], "value": [1, 0]}


class Watched(MemoryStorage):
    """Notes how much is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, start, length)
        self.reads.append(len(data))
        return data


def test_a_range_of_key_groups_reads_only_its_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoint_files, "ROW_GROUP_ROWS", 1000)
    storage = Watched()
    groups = np.repeat(np.arange(100), 500).tolist()
    noise = pa.array(np.random.default_rng(1).integers(0, 1 << 62, len(groups)))
    file = write_keyed(storage, PATH, rows(groups, noise), "totals")
    found = read_all(storage, file.file, 40, 44)
    assert [group for group, _, _ in found] == np.repeat(np.arange(40, 45), 500).tolist()
    assert sum(storage.reads) < file.file.size_bytes / 5
    assert len(storage.reads) <= 3


def test_row_groups_end_where_key_groups_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoint_files, "ROW_GROUP_ROWS", 10)
    storage = MemoryStorage()
    groups = [0] * 4 + [1] * 4 + [2] * 4 + [3] * 25 + [4]
    file = write_keyed(storage, PATH, rows(groups), "totals")
    footer = pq.read_metadata(pa.BufferReader(storage.read(PATH)))
    sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    # 0 and 1 together, 2 alone because 3 does not fit beside it, 3 in parts.
    assert sizes == [8, 4, 10, 10, 6]
    assert read_all(storage, file.file, 3, 3) == [(3, f"k{n}", n) for n in range(12, 37)]


TYPES: dict[str, list[Any]] = {
    "boolean": [True, None],
    "tinyint": [-128, 127],
    "int": [1, None],
    "float": [1.5, float("inf")],
    "double": [-0.0, 1e300],
    "decimal(12,2)": [Decimal("1.20"), None],
    "string": ["ä", ""],
    "binary": [b"\x00", None],
    "date": [0, 19000],
    "timestamp": [0, 1_700_000_000_123_456],
    "timestamp_ntz": [0, None],
    "array<long>": [[1, None], []],
    "map<string,int>": [[("a", 1)], []],
    "struct<a:int,b:array<string>>": [{"a": 1, "b": ["x"]}, None],
}


@pytest.mark.parametrize("ddl", TYPES)
def test_every_type_comes_back(ddl: str) -> None:
    storage = MemoryStorage()
    values = pa.array(TYPES[ddl], to_type(ddl))
    file = write_keyed(storage, PATH, rows([3, 4], values), "totals")
    (part,) = read_keyed(storage, file.file, 0, 9)
    read = part.table.column("value").combine_chunks()
    assert read.type == values.type
    assert read.equals(values)


def test_every_byte_that_changes_is_noticed() -> None:
    storage = MemoryStorage()
    file = write_keyed(storage, PATH, rows(list(range(50))), "totals")
    data = bytearray(storage.read(PATH))
    unnoticed = []
    for place in range(4, len(data)):
        data[place] ^= 0x40
        storage.write(PATH, data)
        data[place] ^= 0x40
        try:
            found = read_all(storage, file.file)
        except DamagedFileError:
            continue
        if found != [(n, f"k{n}", n) for n in range(50)]:
            unnoticed.append(place)
    assert unnoticed == []


@pytest.mark.parametrize("length", [0, 3, 100, -1])
def test_a_truncated_file_is_refused_by_name(length: int) -> None:
    storage = MemoryStorage()
    file = write_keyed(storage, PATH, rows([1, 2]), "totals")
    storage.write(PATH, storage.read(PATH)[:length])
    with pytest.raises(DamagedFileError, match=f"{PATH} of the savepoint is damaged"):
        read_all(storage, file.file)


def test_a_missing_file_is_refused_by_name() -> None:
    storage = MemoryStorage()
    file = write_keyed(storage, PATH, rows([1, 2]), "totals")
    storage.delete(PATH)
    with pytest.raises(DamagedFileError, match=f"{PATH} of the savepoint is damaged.*found none"):
        read_all(storage, file.file)


# ---------------------------------------------------------------- operator state


def test_units_come_back_by_subtask() -> None:
    storage = MemoryStorage()
    units = [pa.array([1, 2], pa.int64()), pa.array([], pa.int64()), pa.array([3], pa.int64())]
    file = write_units(storage, "operator/a/b.parquet", units, "a", "b")
    assert file.rows == 3
    read = read_units(storage, file.file, 3)
    assert [array.to_pylist() for array in read] == [[1, 2], [], [3]]
    table = pq.read_table(pa.BufferReader(storage.read("operator/a/b.parquet")))
    assert table.to_pydict() == {"subtask": [0, 0, 2], "unit": [1, 2, 3]}


def test_no_units_at_all_come_back_as_none() -> None:
    storage = MemoryStorage()
    nothing = pa.array([], to_type("struct<epoch:long,handle:binary>"))
    file = write_units(storage, "operator/a/b.parquet", [nothing, nothing], "a", "b")
    read = read_units(storage, file.file, 2)
    assert [len(array) for array in read] == [0, 0]
    assert read[0].type == nothing.type

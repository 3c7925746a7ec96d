from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import DamagedFileError, SnapshotStorageError
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.shared import HEADER, NewFile, Stored, store_together
from mainstay.snapshot.statefile import StateTable, encode_state_file, open_state_file
from mainstay.snapshot.statewriter import EncodedFile
from mainstay.snapshot.storage import BytesLike

SHARED = "state/%shared/a0001/w0000-1.msts"


def encoded(*values: int) -> EncodedFile:
    table = pa.table({"key": [str(each) for each in values], "value": list(values)})
    groups = np.arange(len(values), dtype=np.uint16)
    return encode_state_file(
        [StateTable("total", table, groups)], is_base=False, max_parallelism=8, hash_id="h"
    )


def file(path: str, make: Callable[[], EncodedFile]) -> NewFile:
    return NewFile(path, make)


def values_in(storage: MemoryStorage, ref: FileRef) -> list[int]:
    found: list[int] = open_state_file(storage, ref).read("total", 0, 7).table["value"].to_pylist()
    return found


def refs(found: list[Stored | Exception]) -> list[FileRef]:
    assert all(isinstance(each, Stored) for each in found)
    return [each.file for each in found if isinstance(each, Stored)]


def test_files_that_are_stored_together_are_read_as_they_were() -> None:
    storage = MemoryStorage()
    contents = [(1, 2), (3,), (4, 5, 6)]
    files = [file(f"f{n}", lambda c=c: encoded(*c)) for n, c in enumerate(contents)]
    found = store_together(storage, SHARED, files)
    assert storage.list("") == [SHARED]
    assert [values_in(storage, ref) for ref in refs(found)] == [list(c) for c in contents]
    for ref in refs(found):
        open_state_file(storage, ref).verify()
        assert ref.is_shared
        assert ref.start >= len(HEADER)


def test_a_file_without_company_has_a_path_of_its_own() -> None:
    storage = MemoryStorage()
    (ref,) = refs(store_together(storage, SHARED, [file("own", lambda: encoded(7))]))
    assert (ref.path, ref.is_shared, ref.name) == ("own", False, "own")
    assert storage.list("") == ["own"]
    assert values_in(storage, ref) == [7]


def test_one_that_cannot_be_made_leaves_the_others_alone() -> None:
    def broken() -> EncodedFile:
        raise ValueError("no such column")

    storage = MemoryStorage()
    files = [
        file("a", lambda: encoded(1)),
        file("b", broken),
        file("c", lambda: encoded(2)),
    ]
    first, second, third = store_together(storage, SHARED, files)
    assert isinstance(second, ValueError)
    assert [values_in(storage, ref) for ref in refs([first, third])] == [[1], [2]]


def test_nothing_is_stored_where_none_can_be_made() -> None:
    def broken() -> EncodedFile:
        raise ValueError("no such column")

    storage = MemoryStorage()
    found = store_together(storage, SHARED, [file("a", broken), file("b", broken)])
    assert all(isinstance(each, ValueError) for each in found)
    assert storage.list("") == []


def test_a_storage_that_fails_is_heard_of_once_for_all() -> None:
    class Full(MemoryStorage):
        def write(self, path: str, data: BytesLike) -> None:
            raise SnapshotStorageError("no room")

    files = [file("a", lambda: encoded(1)), file("b", lambda: encoded(2))]
    with pytest.raises(SnapshotStorageError, match="no room"):
        store_together(Full(), SHARED, files)


@pytest.mark.parametrize("place", [0, 1])
def test_a_shared_file_that_is_cut_off_is_noticed_by_the_part_it_concerns(place: int) -> None:
    storage = MemoryStorage()
    files = [file("a", lambda: encoded(1)), file("b", lambda: encoded(2))]
    found = refs(store_together(storage, SHARED, files))
    after = found[place].start + found[place].size_bytes
    storage.write(SHARED, storage.read(SHARED)[: after - 1])
    with pytest.raises(DamagedFileError, match="fewer"):
        open_state_file(storage, found[place])
    if place == 1:
        assert values_in(storage, found[0]) == [1]

"""What a process on standby has read ahead is read once from there; everything else as ever."""

from __future__ import annotations

import pytest

from mainstay.snapshot.commitlog import claim_slot, read_history
from mainstay.snapshot.history import Begin, EpochCommitted
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.storage import NotFound
from mainstay.snapshot.warm import WarmStorage


class Counting(MemoryStorage):
    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.reads.append(path)
        return super().read(path, start, length)


def with_epochs(count: int) -> Counting:
    storage = Counting()
    begin = Begin(1, "leader", None, "job", "job", 128, "hash", 1)
    claim_slot(storage, read_history(storage), begin, "t0")
    for number in range(1, count + 1):
        add_epoch(storage, number)
    return storage


def add_epoch(storage: MemoryStorage, number: int) -> None:
    path = f"epochs/{number}"
    storage.write(path, f"manifest {number}".encode())
    record = EpochCommitted(number, 1, FileRef(path, 10, "crc32:0"))
    claim_slot(storage, read_history(storage), record, f"t{number}")


def test_the_latest_manifest_is_there_without_being_read_again() -> None:
    storage = with_epochs(2)
    warm = WarmStorage(storage)
    assert warm.read_ahead() == 3
    storage.reads.clear()
    assert warm.read("epochs/2") == b"manifest 2"
    assert storage.reads == []
    assert warm.read("epochs/2") == b"manifest 2"
    assert storage.reads == ["epochs/2"], "it is kept for one reader"


def test_it_follows_the_log_and_reads_nothing_twice() -> None:
    storage = with_epochs(1)
    warm = WarmStorage(storage)
    warm.read_ahead()
    warm.read_ahead()
    assert storage.reads.count("epochs/1") == 1
    add_epoch(storage, 2)
    warm.read_ahead()
    storage.delete("epochs/2")
    assert warm.read("epochs/2") == b"manifest 2"
    with pytest.raises(NotFound):
        warm.read("epochs/2")


def test_where_there_is_no_epoch_there_is_nothing_to_read() -> None:
    warm = WarmStorage(MemoryStorage())
    warm.read_ahead()
    warm.write("a", b"1")
    assert warm.create("a", b"2") is False
    assert warm.list("") == ["a"]
    assert warm.read("a", 0, 1) == b"1"
    warm.delete("a")
    assert warm.list("") == []

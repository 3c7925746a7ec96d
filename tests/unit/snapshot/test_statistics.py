from __future__ import annotations

import pytest

from mainstay.errors import DamagedFileError
from mainstay.snapshot import statistics
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.statistics import EpochStatistics, read_statistics, write_statistics


def figures(epoch: int) -> EpochStatistics:
    return EpochStatistics(epoch, 1, "complete", 1.5, 0.25, 1000, 0.1, 0.2, 0.3)


def stored(*chunks: list[int]) -> MemoryStorage:
    storage = MemoryStorage()
    for chunk in chunks:
        write_statistics(storage, [figures(number) for number in chunk])
    return storage


def test_statistics_are_read_back_oldest_first() -> None:
    found = read_statistics(stored([1, 2], [3], [4, 5]))
    assert found == [figures(number) for number in range(1, 6)]


def test_the_newest_are_read_without_the_others() -> None:
    storage = stored([1, 2], [3, 4], [5, 6])
    storage.write(storage.list("statistics/")[0], b"damaged")
    assert [each.epoch for each in read_statistics(storage, 3)] == [4, 5, 6]


def test_of_many_chunks_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "KEPT_CHUNKS", 3)
    storage = stored(*([number] for number in range(1, 20)))
    assert [each.epoch for each in read_statistics(storage)] == [17, 18, 19]


def test_a_damaged_chunk_is_named() -> None:
    storage = stored([1])
    storage.write("statistics/0000000001-a0001.json", b"[]")
    with pytest.raises(DamagedFileError, match=r"statistics/0000000001-a0001\.json"):
        read_statistics(storage)

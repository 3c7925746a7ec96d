from __future__ import annotations

from typing import Any

from mainstay.runtime.coordinator.epoch_history import (
    CHUNK,
    MOST_DETAILED,
    MOST_RECORDS,
    EpochHistory,
)
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.messages import Epoch, Figures
from mainstay.runtime.status import EpochStatus
from mainstay.snapshot.statistics import read_statistics


def record(number: int) -> EpochRecord:
    figures = {("task", n): Figures(alignment_s=n, size_bytes=10) for n in range(3)}
    return EpochRecord(Epoch(number), 1, EpochStatus.COMPLETE, float(number), 0.5, 30, figures)


def test_the_newest_epochs_are_kept_and_of_few_every_figure(world: Any) -> None:
    history = EpochHistory(world.ports)
    for number in range(1, 2 * MOST_RECORDS):
        history.add([record(number)])
    numbers = [each.epoch for each in history.records]
    assert numbers == list(range(MOST_RECORDS, 2 * MOST_RECORDS))
    assert sum(bool(each.figures) for each in history.records) == MOST_DETAILED
    assert history.records[-1].figures
    assert history.records[0].size_bytes == 30


def test_every_epoch_is_in_the_storage_once_its_chunk_is_whole(world: Any) -> None:
    history = EpochHistory(world.ports)
    history.add(record(number) for number in range(1, CHUNK + 3))
    history.add([record(CHUNK + 3)])
    world.background.drain()
    assert len(read_statistics(world.storage)) == CHUNK + 2
    history.store()
    world.background.drain()
    found = read_statistics(world.storage)
    assert [each.epoch for each in found] == list(range(1, CHUNK + 4))
    assert found[0].alignment_s == 2


def test_statistics_that_could_not_be_stored_are_stored_with_the_next(world: Any) -> None:
    history = EpochHistory(world.ports)
    world.storage.fail("write", "statistics/")
    history.add(record(number) for number in range(1, CHUNK + 1))
    world.background.drain()
    assert read_statistics(world.storage) == []
    history.store()
    world.background.drain()
    assert len(read_statistics(world.storage)) == CHUNK

"""The epochs of a job so far: the newest in memory, the others as statistics in its storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields, replace

from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.messages import Epoch
from mainstay.runtime.ports import Ports
from mainstay.runtime.status import EpochStatus
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.statistics import EpochStatistics, read_statistics, write_statistics
from mainstay.snapshot.storage import Storage

MOST_RECORDS = 1000
MOST_DETAILED = 64
"""Of how many records the figures of every subtask are kept."""
CHUNK = 100
"""How many epochs are stored at a time."""


class EpochHistory:
    """Gathers what has become of epochs, in bounded memory."""

    def __init__(self, ports: Ports) -> None:
        self.records: list[EpochRecord] = []
        self._ports = ports
        self._unstored: list[EpochStatistics] = []

    def add(self, records: Iterable[EpochRecord]) -> None:
        """Epochs have ended, one way or another."""
        for record in records:
            self.records.append(record)
            self._unstored.append(_statistics_of(record))
            if len(self.records) > MOST_DETAILED:
                older = self.records[-MOST_DETAILED - 1]
                self.records[-MOST_DETAILED - 1] = replace(older, figures={})
        del self.records[:-MOST_RECORDS]
        if len(self._unstored) >= CHUNK:
            self.store()

    def known(self, records: Iterable[EpochRecord]) -> None:
        """Epochs of an earlier start, of which nothing has to be stored."""
        self.records.extend(records)

    def store(self) -> None:
        """Store what is not stored yet, in the background."""
        chunk, self._unstored = self._unstored, []
        if not chunk:
            return
        storage = self._ports.storage

        def failed(_: Exception) -> None:
            # Kept for the next chunk, unless the storage has been away for very long.
            self._unstored = [*chunk, *self._unstored][-MOST_RECORDS:]

        self._ports.background.submit(
            lambda: write_statistics(storage, chunk), lambda _: None, failed
        )


def record_of(statistics: EpochStatistics) -> EpochRecord:
    """An epoch as its statistics tell of it, without the figures of subtasks."""
    names = {field.name for field in fields(EpochRecord)}
    known = {name: value for name, value in asdict(statistics).items() if name in names}
    return EpochRecord(**{**known, "status": EpochStatus(known["status"])})


def past_epochs(storage: Storage) -> list[EpochRecord]:
    """The epochs of earlier leaders, oldest first, as statistics and the log have them.

    A leader that dies takes its last statistics with it; the log knows its newest epochs.
    """
    found = {(each.epoch, each.attempt): record_of(each) for each in read_statistics(storage)}
    for epoch in read_history(storage).epochs:
        unknown = EpochRecord(
            epoch=Epoch(epoch.epoch),
            attempt=epoch.attempt,
            status=EpochStatus.COMPLETE,
            triggered_at=0.0,
            reason="of an earlier leader, which took its figures with it",
        )
        found.setdefault((epoch.epoch, epoch.attempt), unknown)
    return [found[key] for key in sorted(found)][-MOST_RECORDS:]


def _statistics_of(record: EpochRecord) -> EpochStatistics:
    figures = record.figures.values()
    return EpochStatistics(
        epoch=record.epoch,
        attempt=record.attempt,
        status=record.status.value,
        triggered_at=record.triggered_at,
        duration_s=record.duration_s,
        size_bytes=record.size_bytes,
        alignment_s=max((each.alignment_s for each in figures), default=0.0),
        sync_s=max((each.sync_s for each in figures), default=0.0),
        async_s=max((each.async_s for each in figures), default=0.0),
        reason=record.reason,
        is_unaligned=record.is_unaligned,
    )

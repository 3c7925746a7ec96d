"""Follows the commit log of a job from outside, and keeps what the job itself deletes."""

from __future__ import annotations

import threading

from mainstay.errors import MainstayError
from mainstay.snapshot.history import EpochCommitted, Record, SavepointTaken
from mainstay.snapshot.layout import LOG_PREFIX, log_slot, slot_index
from mainstay.snapshot.slots import decode_slot
from mainstay.snapshot.storage import NotFound, Storage


class LogReader:
    """The records of a log in the order of their slots.

    A leader that has slept for long may create a slot again that was deleted: only slots beyond
    those that were seen are looked at.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self.records: list[Record] = []
        self.missed = 0
        """Slots that were gone before anybody looked."""
        self._next = 0

    def read(self) -> None:
        with self._lock:
            try:
                self._read_on()
            except (NotFound, MainstayError, OSError):
                return  # the storage is away, or the slot is gone: the next look finds out

    def _read_on(self) -> None:
        indices = [slot_index(path) for path in self._storage.list(LOG_PREFIX)]
        newest = max((index for index in indices if index is not None), default=-1)
        # By number: a listing that is made while slots are created may skip one.
        for index in range(self._next, newest + 1):
            path = log_slot(index)
            try:
                self.records.append(decode_slot(self._storage.read(path), index, path).record)
            except NotFound:
                self.missed += 1
            self._next = index + 1

    @property
    def newest(self) -> Record | None:
        telling = [each for each in self.records if not isinstance(each, SavepointTaken)]
        return telling[-1] if telling else None

    @property
    def epochs(self) -> list[EpochCommitted]:
        return [each for each in self.records if isinstance(each, EpochCommitted)]

    def last_epochs(self) -> set[int]:
        """The last epoch of each attempt: it may hold rows in flight."""
        last = {each.attempt: each.epoch for each in self.epochs}
        return set(last.values())

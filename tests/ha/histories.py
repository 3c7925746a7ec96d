"""Checks the history of a job that had several leaders: its commit log, its sink and its files."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.history import Begin, Ended, EpochCommitted, Finished, Record
from mainstay.snapshot.layout import LOG_PREFIX, slot_index
from mainstay.snapshot.retention import stored
from mainstay.snapshot.slots import decode_slot
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.verifying import verify_manifest


def records_of(storage: Storage) -> list[Record]:
    """Every record of a log of which no slot was deleted."""
    paths = storage.list(LOG_PREFIX)
    assert [slot_index(path) for path in paths] == list(range(len(paths))), "slots are missing"
    return [decode_slot(storage.read(path), index, path).record for index, path in enumerate(paths)]


def check_leaders(records: Iterable[Record]) -> int:
    """No leader does anything after its successor has begun; returns how many there were."""
    current: Begin | None = None
    leaders: list[str] = []
    active: set[str] = set()
    epochs: list[int] = []
    for record in records:
        if isinstance(record, Begin):
            assert current is None or record.attempt > current.attempt, "an attempt goes back"
            is_new = not leaders or leaders[-1] != record.leader
            # One that was not sure of its begin may try again, but has run nothing.
            assert not is_new or record.leader not in active, "a leader that was replaced is back"
            leaders += [record.leader] if is_new else []
            current = record
        elif isinstance(record, EpochCommitted | Finished | Ended):
            assert current is not None
            assert record.attempt == current.attempt, f"{record} is of an attempt that was replaced"
            active.add(current.leader)
            epochs += [record.epoch] if isinstance(record, EpochCommitted) else []
    assert all(before < after for before, after in pairwise(epochs)), "an epoch number goes back"
    return len(leaders)


def check_commits(records: Iterable[Record], committed: Iterable[tuple[int, int]]) -> None:
    """Each commit of a sink, given by attempt and epoch, belongs to an epoch of the log.

    What was prepared for an epoch that was aborted is committed with the next one of its attempt.
    """
    last: dict[int, int] = {}
    for record in records:
        if isinstance(record, EpochCommitted):
            last[record.attempt] = record.epoch
    for attempt, epoch in committed:
        known = last.get(attempt, 0)
        assert epoch <= known, f"epoch {epoch} of attempt {attempt} was committed, {known} counts"


def check_files(storage: Storage, retain: int) -> None:
    """Nobody has deleted what the epochs that are kept need."""
    lineage = [record.manifest for record in read_history(storage).lineage_epochs()]
    places = stored(storage, lineage)[-retain:]
    assert places, "no epoch is kept"
    for place in places:
        verify_manifest(storage, read_manifest(storage, place))

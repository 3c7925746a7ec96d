"""The commit log: the history of a job as one sequence of small JSON slots.

Each slot is made with create-if-absent, so two leaders compete for the same one and exactly one
wins. Winning the slot is the commit; a manifest that no slot names does not exist. A leader that
slept through its lease therefore cannot complete an epoch after the next leader has begun.

The log does not grow: the newest slot holds all that came before it (``slots``), so the leader
deletes old slots, lowest first. A slot that was deleted can be created again, by a leader that has
slept for long. So a claim is won only if the slot before it is still there, with the token that
the claimant knows. Slots go in ascending order, so the one before a deleted slot is gone too.
Slot 0 has none before it and is never deleted; so for slot 1 it takes a look for higher slots.

This module does the input and output; what the slots mean is decided in ``history``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from mainstay.errors import (
    DamagedFileError,
    OutcomeUnknownError,
    ProtocolError,
    RestoreError,
    SnapshotStorageError,
)
from mainstay.snapshot.history import (
    Begin,
    Ended,
    EpochCommitted,
    Finished,
    History,
    Record,
    SavepointTaken,
)
from mainstay.snapshot.layout import LOG_PREFIX, log_slot, slot_index
from mainstay.snapshot.slots import Slot, decode_slot, encode_slot
from mainstay.snapshot.storage import NotFound, Storage

__all__ = [
    "Begin",
    "ClaimOutcome",
    "Ended",
    "EpochCommitted",
    "Finished",
    "History",
    "Record",
    "SavepointTaken",
    "claim_slot",
    "delete_slots",
    "free_slot",
    "read_history",
    "slots_below",
]


class ClaimOutcome(Enum):
    """Who owns the slot. After LOST the log must be read again before anything else is done."""

    WON = "won"
    LOST = "lost"


class _MissingSlotError(Exception):
    """A slot that was listed, or that must be there, is not."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def read_history(storage: Storage) -> History:
    """The job's history; empty where nothing was ever begun."""
    newest = _newest(storage)
    while newest >= 0:
        try:
            return _history_at(storage, newest)
        except _MissingSlotError as missing:
            # A leader that moves on may have deleted the slot since it was listed.
            again = _newest(storage)
            if again <= newest:
                raise RestoreError(
                    f"the commit log has a gap: {missing.path} is missing, but {log_slot(newest)} "
                    f"exists. Bring the missing slot back; without it the history of the job is "
                    f"unknown."
                ) from missing
            newest = again
    return History()


def free_slot(storage: Storage) -> int | None:
    """The first free slot of a job's log; None if it cannot be read just now."""
    try:
        return _newest(storage) + 1
    except SnapshotStorageError:
        return None  # the leader will find out what is wrong with it


def _newest(storage: Storage) -> int:
    indices = [slot_index(path) for path in storage.list(LOG_PREFIX)]
    return max((index for index in indices if index is not None), default=-1)


def _history_at(storage: Storage, newest: int) -> History:
    slot = _read_slot(storage, newest)
    if slot.before is not None:
        return History(facts=slot.before).with_record(slot.record, slot.claim)
    # An older version wrote every slot of this log, and deleted none. Every slot is read by its
    # number: a listing made while slots are being created may skip one that exists.
    older = History(_read_slot(storage, index).record for index in range(newest))
    return older.with_record(slot.record, slot.claim)


def _read_slot(storage: Storage, index: int) -> Slot:
    path = log_slot(index)
    try:
        data = storage.read(path)
    except NotFound as error:
        raise _MissingSlotError(path) from error
    return decode_slot(data, index, path)


def claim_slot(storage: Storage, history: History, record: Record, claim: str) -> ClaimOutcome:
    """Try to put a record into the slot after a history.

    Raises ``OutcomeUnknownError`` when neither outcome is certain; call again with the same
    arguments, which is safe however often it is done.
    """
    path = log_slot(history.next_slot)
    data = encode_slot(Slot(record, claim, history.facts))
    try:
        is_ours = storage.create(path, data) or _is_ours(storage, history, record, claim, None)
    except OutcomeUnknownError as error:
        is_ours = _is_ours(storage, history, record, claim, error)
    if not is_ours or not _follows(storage, history):
        return ClaimOutcome.LOST
    return ClaimOutcome.WON


def _is_ours(
    storage: Storage, history: History, record: Record, claim: str, cause: Exception | None
) -> bool:
    """Whether the slot holds our claim, where ``create`` could not say so.

    A store that lost its own first answer and tried again reports our own slot as taken.
    """
    path = log_slot(history.next_slot)
    try:
        data = storage.read(path)
    except SnapshotStorageError as error:
        raise OutcomeUnknownError(
            f"whether {path} was claimed is unknown: {cause or error}. Claim it again."
        ) from error
    found = decode_slot(data, history.next_slot, path)
    if found.claim == claim and found.record != record:
        raise ProtocolError(f"{claim!r} of {path} was used for {found.record} and {record}")
    return found.claim == claim


def _follows(storage: Storage, history: History) -> bool:
    """Whether the slot before is the one that the claimant knows; if not, the log has moved on."""
    index = history.next_slot - 1
    if index < 0:
        return True
    try:
        before = _read_slot(storage, index)
    except _MissingSlotError:
        return False
    except DamagedFileError:
        # A leader that has slept for long writes no damaged slots: this is the one that was there.
        return True
    except SnapshotStorageError as error:
        raise OutcomeUnknownError(
            f"whether {log_slot(index + 1)} was claimed is unknown: {error} Claim it again."
        ) from error
    return history.facts.last_claim in (None, before.claim) and not (
        index == 0 and _is_old(storage, index + 1)
    )


def _is_old(storage: Storage, index: int) -> bool:
    """Whether the log had gone on before a slot was created. A slot is deleted after that alone."""
    try:
        return _newest(storage) > index
    except SnapshotStorageError as error:
        raise OutcomeUnknownError(
            f"whether {log_slot(index)} was claimed is unknown: {error} Claim it again."
        ) from error


def slots_below(storage: Storage, index: int) -> list[int]:
    """The slots below one that may be deleted once that exists, lowest first."""
    found = (slot_index(path) for path in storage.list(LOG_PREFIX))
    return sorted(each for each in found if each is not None and 0 < each < index)


def delete_slots(storage: Storage, slots: Sequence[int]) -> None:
    """Delete slots, lowest first: none may outlive the one before it."""
    for index in sorted(slots):
        storage.delete(log_slot(index))

"""A landmark of a snapshot directory: by it a worker knows that it sees the coordinator's.

On a cluster a folder has to be mounted on every machine. Where it is not, each machine makes one of
its own under the same name, and epochs name files that only one of them has. So a worker looks for
the slot of the commit log that its attempt has begun with.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstay.errors import SnapshotStorageError
from mainstay.snapshot.commitlog import free_slot
from mainstay.snapshot.layout import log_slot
from mainstay.snapshot.slots import decode_slot
from mainstay.snapshot.storage import NotFound, Storage


@dataclass(frozen=True, slots=True)
class Landmark:
    """A slot of the commit log, and the token that it was claimed by."""

    slot: int
    claim: str


def require_landmark(storage: Storage, landmark: Landmark, place: str, host: str) -> None:
    """Refuse a folder that is another one on this host than where the coordinator is."""
    if _is_in_sight(storage, landmark):
        return
    error = SnapshotStorageError(
        f"the snapshot directory {place!r} is another one on host {host} than where the "
        f"coordinator runs: it lacks {log_slot(landmark.slot)}, which the coordinator has "
        "written. Give a folder that all machines mount under this name, or an object store, as in "
        'Snapshots("s3://bucket/job").'
    )
    # Later on it may be one host that has lost its mount, and the next attempt runs elsewhere.
    error.is_final_at_start = True
    raise error


def _is_in_sight(storage: Storage, landmark: Landmark) -> bool:
    path = log_slot(landmark.slot)
    try:
        return decode_slot(storage.read(path), landmark.slot, path).claim == landmark.claim
    except NotFound:
        # A leader that has moved on deletes old slots.
        return (free_slot(storage) or 0) > landmark.slot + 1

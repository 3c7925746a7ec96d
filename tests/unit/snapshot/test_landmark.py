"""Whether a process sees the folder that the coordinator writes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mainstay.errors import SnapshotStorageError
from mainstay.snapshot.commitlog import claim_slot
from mainstay.snapshot.history import Begin, EpochCommitted, History
from mainstay.snapshot.landmark import Landmark, require_landmark
from mainstay.snapshot.layout import log_slot
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage

BEGIN = Begin(1, "leader", None, "lineage", "job", 128, "mainstay-1", 1)
EPOCH = EpochCommitted(1, 1, FileRef("epochs/1", 1, 1))
LANDMARK = Landmark(0, "mine")


def begun(claim: str) -> tuple[MemoryStorage, History]:
    storage = MemoryStorage()
    claim_slot(storage, History(), BEGIN, claim)
    return storage, History().with_record(BEGIN, claim)


def look(storage: MemoryStorage, landmark: Landmark = LANDMARK) -> None:
    require_landmark(storage, landmark, "/home/ann/snapshots", "10.0.0.13")


def test_the_slot_that_the_attempt_has_begun_with_is_known() -> None:
    look(begun("mine")[0])


def test_a_folder_without_it_is_refused_with_its_name_the_host_and_the_remedy() -> None:
    with pytest.raises(SnapshotStorageError) as raised:
        look(MemoryStorage())
    assert str(raised.value).startswith(
        "the snapshot directory '/home/ann/snapshots' is another one on host 10.0.0.13 than"
    )
    assert "a folder that all machines mount under this name" in str(raised.value)
    assert raised.value.is_final_at_start
    assert not raised.value.is_final, "a host that has lost its mount may be left later on"


def test_a_folder_with_the_log_of_another_job_is_refused() -> None:
    with pytest.raises(SnapshotStorageError):
        look(begun("somebody else's")[0])


def test_a_slot_that_a_leader_has_deleted_since_is_not_missed() -> None:
    storage, history = begun("mine")
    claim_slot(storage, history, EPOCH, "next")
    storage.delete(log_slot(0))
    look(storage)
    with pytest.raises(SnapshotStorageError):
        look(storage, replace(LANDMARK, slot=2))

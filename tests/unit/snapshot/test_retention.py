from __future__ import annotations

import pytest

from mainstay.snapshot.layout import manifest_path, segment_path
from mainstay.snapshot.manifest import (
    FileRef,
    Manifest,
    OperatorState,
    SegmentRef,
    SubtaskState,
)
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.retention import Retention, orphans


def file(name: str) -> FileRef:
    """``"a@8"`` is the part of the shared file ``a`` that begins at 8."""
    path, _, start = name.partition("@")
    return FileRef(path, 10, "crc32:0", int(start or 0))


def epoch(number: int, *files: str, attempt: int = 1) -> tuple[FileRef, Manifest]:
    """A completed epoch that reaches the given files."""
    chain = tuple(SegmentRef(name, file(name), 0, 127, 1) for name in files)
    count = OperatorState("count", 1, "string", (), (SubtaskState(0, chain),))
    manifest = Manifest(
        job="words",
        lineage="l1",
        epoch=number,
        attempt=attempt,
        mode="exactly_once",
        max_parallelism=128,
        hash_id="h",
        created_at=0.0,
        operators={"count": count},
        sources={},
    )
    return file(manifest_path(number, attempt)), manifest


def manifest_of(number: int) -> str:
    return manifest_path(number, 1)


def test_nothing_goes_while_there_are_no_more_epochs_than_are_kept() -> None:
    retention = Retention(2)
    assert retention.completed(*epoch(1, "a")) == []
    assert retention.completed(*epoch(2, "b")) == []


def test_the_oldest_epoch_goes_with_the_files_that_no_other_reaches() -> None:
    retention = Retention(2)
    retention.completed(*epoch(1, "a", "b"))
    retention.completed(*epoch(2, "b", "c"))
    assert retention.completed(*epoch(3, "c")) == [manifest_of(1), "a"]


def test_a_shared_file_stays_while_one_of_its_parts_is_reached() -> None:
    retention = Retention(1)
    retention.completed(*epoch(1, "shared@8", "shared@90"))
    assert retention.completed(*epoch(2, "shared@90")) == [manifest_of(1)]
    assert retention.completed(*epoch(3, "merged")) == [manifest_of(2), "shared"]


def test_a_file_that_a_kept_epoch_reaches_stays_however_old_it_is() -> None:
    retention = Retention(1)
    retention.completed(*epoch(1, "base", "a"))
    for number in range(2, 6):
        assert retention.completed(*epoch(number, "base", "a")) == [manifest_of(number - 1)]
    assert retention.completed(*epoch(6, "merged")) == [manifest_of(5), "a", "base"]


def test_a_file_that_a_pending_epoch_reaches_stays() -> None:
    retention = Retention(1)
    retention.completed(*epoch(1, "a", "b"))
    assert retention.completed(*epoch(2, "c"), pending=["b"]) == [manifest_of(1), "a"]


def test_manifests_go_before_the_files_they_name() -> None:
    retention = Retention(1)
    retention.keep_older([epoch(1, "a"), epoch(2, "b")])
    deleted = retention.completed(*epoch(3, "c"))
    assert deleted == [manifest_of(1), manifest_of(2), "a", "b"]


def test_files_of_epochs_that_were_never_completed_are_not_touched() -> None:
    retention = Retention(1)
    retention.completed(*epoch(1, "a"))
    # Epoch 2 was aborted after it had written "b": no manifest reaches it yet.
    assert retention.completed(*epoch(3, "a", "c")) == [manifest_of(1)]
    assert retention.completed(*epoch(4, "a", "b", "c")) == [manifest_of(3)]


def test_epochs_of_earlier_attempts_are_older_than_those_known_so_far() -> None:
    retention = Retention(2)
    retention.completed(*epoch(3, "c"))
    retention.keep_older([epoch(1, "a"), epoch(2, "b")])
    assert retention.completed(*epoch(4, "d")) == [manifest_of(1), manifest_of(2), "a", "b"]


def test_an_epoch_that_is_known_already_is_not_taken_over_twice() -> None:
    retention = Retention(2)
    retention.completed(*epoch(2, "b"))
    retention.keep_older([epoch(1, "a"), epoch(2, "b")])
    assert retention.completed(*epoch(3, "c")) == [manifest_of(1), "a"]


def state_file(attempt: int, name: str) -> str:
    return segment_path("count", 0, attempt, name)


def filled() -> MemoryStorage:
    """A directory after two attempts; attempt 3 has just begun."""
    storage = MemoryStorage()
    for path in (
        manifest_path(1, 1),
        manifest_path(2, 2),
        manifest_path(3, 2),
        state_file(1, "kept"),
        state_file(1, "left"),
        state_file(2, "kept"),
        state_file(2, "left"),
        state_file(3, "new"),
        manifest_path(4, 3),
        "log/0000000000",
    ):
        storage.write(path, b"")
    return storage


@pytest.fixture
def storage() -> MemoryStorage:
    return filled()


def test_orphans_are_what_no_kept_epoch_reaches(storage: MemoryStorage) -> None:
    kept = [epoch(2, state_file(1, "kept"), state_file(2, "kept"), attempt=2)]
    assert orphans(storage, kept, 3) == [
        manifest_path(1, 1),
        manifest_path(3, 2),
        state_file(1, "left"),
        state_file(2, "left"),
    ]


def test_files_of_the_current_attempt_are_never_orphans(storage: MemoryStorage) -> None:
    found = orphans(storage, [], 3)
    assert state_file(3, "new") not in found
    assert manifest_path(4, 3) not in found
    assert state_file(2, "kept") in found


def test_the_log_is_never_an_orphan(storage: MemoryStorage) -> None:
    assert "log/0000000000" not in orphans(storage, [], 99)


def test_a_file_that_mainstay_did_not_write_is_no_orphan(storage: MemoryStorage) -> None:
    storage.write("state/README.md", b"do not touch")
    assert "state/README.md" not in orphans(storage, [], 3)

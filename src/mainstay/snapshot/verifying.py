"""Verifying what an epoch needs: every file that its manifest names is read and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mainstay.snapshot.checked import read_checked
from mainstay.snapshot.manifest import PARQUET, FileRef, Manifest, SegmentRef
from mainstay.snapshot.savepoint_files import read_keyed
from mainstay.snapshot.statefile import open_state_file
from mainstay.snapshot.storage import Storage

Check = Callable[[], object]
"""Reads a file, and raises ``DamagedFileError`` if it is not what it should be."""


def verify_manifest(storage: Storage, manifest: Manifest) -> None:
    """Read everything that restoring an epoch needs; raises for the first file that is damaged."""
    for _, check in dict(file_checks(storage, manifest)).values():
        check()


def file_checks(
    storage: Storage, manifest: Manifest
) -> Iterator[tuple[str, tuple[FileRef, Check]]]:
    """Every file that an epoch reaches, by its name, with what checks it."""
    for operator in manifest.operators.values():
        for subtask in operator.subtasks:
            for file in subtask.files():
                yield file.name, (file, whole_check(storage, file))
            # Segments last: theirs is another check than of files that are read whole.
            for segment in subtask.chain:
                for file in segment.files():
                    yield file.name, (file, _segment_check(storage, segment, file))


def _segment_check(storage: Storage, segment: SegmentRef, file: FileRef) -> Check:
    if segment.is_backends_own:
        return whole_check(storage, file)
    if segment.format == PARQUET:
        return parquet_check(storage, file, segment.last_group)
    return lambda: open_state_file(storage, file).verify()


def whole_check(storage: Storage, file: FileRef) -> Check:
    return lambda: read_checked(storage, file)


def parquet_check(storage: Storage, file: FileRef, last_group: int) -> Check:
    def check() -> None:
        # Some row groups at a time; each is dropped before the next is read.
        for _ in read_keyed(storage, file, 0, last_group):
            continue

    return check

"""Orphans: stored files that no kept epoch reaches, and when it is safe to delete them.

An attempt that begins sweeps what dead attempts left behind; orphans remain where no attempt
begins any more, or where its sweep failed. The rule is the same as for that sweep: only manifests
and state files of attempts before the newest can be orphans, because only of those is it certain
that no epoch will ever name them. What the newest attempt wrote may belong to an epoch that is
under way, and is left to the next attempt.

While the job seems to run none is deleted (``survey_condition``): a savepoint that is being written
may need files that nothing else reaches any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstay.errors import RestoreError
from mainstay.inspect.survey import Directory
from mainstay.inspect.survey_condition import condition_of
from mainstay.snapshot.layout import attempt_of
from mainstay.snapshot.listing import ListedStorage, StoredFile
from mainstay.snapshot.retention import delete_unneeded


@dataclass(frozen=True, slots=True)
class Orphans:
    """What nobody reaches: orphans to be deleted, and the files of the newest attempt, which stay.

    ``unsure`` says why none may be deleted now; None when they may be.
    """

    files: tuple[StoredFile, ...]
    left_alone: tuple[StoredFile, ...]
    unsure: str | None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def left_alone_bytes(self) -> int:
        return sum(file.size_bytes for file in self.left_alone)


def find_orphans(directory: Directory, now: float) -> Orphans:
    """The orphans of a directory.

    Raises ``RestoreError`` when a kept manifest cannot be read: what it reaches is unknown then.
    """
    needed = _needed(directory)
    newest = directory.begin.attempt
    found: tuple[list[StoredFile], list[StoredFile]] = ([], [])
    for path, file in directory.files.items():
        attempt = attempt_of(path)
        if attempt is not None and path not in needed:
            found[attempt >= newest].append(file)
    condition = condition_of(directory, now)
    return Orphans(tuple(found[False]), tuple(found[True]), condition.may_be_running)


def _needed(directory: Directory) -> set[str]:
    needed: set[str] = set()
    for epoch in directory.epochs:
        if epoch.manifest is None:
            raise RestoreError(
                f"which files are orphans is unknown, because the manifest of epoch {epoch.epoch} "
                f"cannot be read: {epoch.flaws[0].why}"
            )
        needed.add(epoch.record.manifest.path)
        needed.update(file.path for file in epoch.files.values())
    return needed


def remove_orphans(storage: ListedStorage, orphans: Orphans) -> None:
    """Delete what was found. A job that begins meanwhile builds on kept epochs, never on these."""
    if orphans.unsure is not None:
        raise RestoreError(
            f"nothing was removed: {orphans.unsure}. Try again then, or start the job: a new "
            "attempt removes what older ones left behind."
        )
    delete_unneeded(storage, [file.path for file in orphans.files])

"""Retention: which epochs are kept, and which files nobody can need any more.

A file goes only when it belonged to an epoch that is no longer kept and no kept or pending epoch,
nor a savepoint that is being written, reaches it. Files of aborted epochs are not touched: their
segments go with the next epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from mainstay.snapshot.layout import MANIFEST_PREFIX, STATE_PREFIX, attempt_of
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.snapshot.storage import Storage


class Retention:
    """The kept epochs of one job, oldest first."""

    def __init__(self, retain: int) -> None:
        self._retain = retain
        self._kept: list[tuple[FileRef, frozenset[str]]] = []
        self._spared: set[str] = set()

    def completed(
        self,
        place: FileRef,
        manifest: Manifest,
        pending: Iterable[str] = (),
        pinned: Collection[str] = (),
    ) -> list[str]:
        """Keep a completed epoch; returns the paths that may be deleted on account of it.

        ``pinned`` files are needed by nothing but a savepoint that is being written: they go with
        an epoch after it.
        """
        self._kept.append((place, frozenset(file.path for file in manifest.files())))
        retired, self._kept = self._kept[: -self._retain], self._kept[-self._retain :]
        needed = {path for _, files in self._kept for path in files} | set(pending)
        unneeded = ({path for _, files in retired for path in files} | self._spared) - needed
        self._spared = unneeded.intersection(pinned)
        unneeded -= self._spared
        return [place.path for place, _ in retired] + sorted(unneeded)

    def keep_older(self, epochs: Sequence[tuple[FileRef, Manifest]]) -> None:
        """Take over the epochs of earlier attempts, oldest first, before those known so far."""
        older = [(place, frozenset(f.path for f in manifest.files())) for place, manifest in epochs]
        known = {place for place, _ in self._kept}
        self._kept = [(place, files) for place, files in older if place not in known] + self._kept


def delete_unneeded(storage: Storage, paths: Iterable[str]) -> None:
    """Delete manifests and files. A manifest must never outlive a file that it names."""
    found = list(paths)
    manifests = [path for path in found if path.startswith(MANIFEST_PREFIX)]
    storage.delete(*manifests)
    storage.delete(*(path for path in found if not path.startswith(MANIFEST_PREFIX)))


def stored(storage: Storage, places: Sequence[FileRef]) -> list[FileRef]:
    """The manifests that are still there, and the last in any case: it must not be missing.

    Retention deletes the manifest of an epoch before its files. One that is absent was retired.
    """
    found = set(storage.list(MANIFEST_PREFIX))
    return [place for place in places if place.path in found or place == places[-1]]


def orphans(
    storage: Storage,
    kept: Iterable[tuple[FileRef, Manifest]],
    attempt: int,
    pinned: Collection[str] = (),
) -> list[str]:
    """Manifests and state files of attempts before ``attempt`` that nobody needs.

    Safe once the attempt's begin is in the log: no older attempt can complete an epoch then.
    """
    needed = set(pinned)
    for place, manifest in kept:
        needed.add(place.path)
        needed.update(file.path for file in manifest.files())
    found = [*storage.list(MANIFEST_PREFIX), *storage.list(STATE_PREFIX)]
    return [path for path in found if path not in needed and _is_older(path, attempt)]


def _is_older(path: str, attempt: int) -> bool:
    # What carries no attempt was not written by one, and is not ours to delete.
    found = attempt_of(path)
    return found is not None and found < attempt

"""Housekeeping: deletes files that no epoch needs any more, in the background.

What could not be deleted is swept up when the next attempt begins; nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.runtime.messages import Attempt
from mainstay.runtime.ports import Ports
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.history import History
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.snapshot.retention import Retention, delete_unneeded, orphans, stored


class Housekeeping:
    """Keeps the newest epochs of a job, and what savepoints under way have pinned."""

    def __init__(self, ports: Ports, retain: int) -> None:
        self._ports = ports
        self._retain = retain
        self._retention = Retention(retain)

    def sweep(self, attempt: Attempt, history: History, pinned: set[str]) -> None:
        """Delete what older attempts left behind and no kept epoch reaches."""
        storage, retain = self._ports.storage, self._retain
        lineage = [record.manifest for record in history.lineage_epochs()]

        def work() -> list[tuple[FileRef, Manifest]]:
            # Where an older epoch was restored, those before it may have been retired long ago.
            places = stored(storage, lineage)[-retain:]
            kept = [(place, read_manifest(storage, place)) for place in places]
            delete_unneeded(storage, orphans(storage, kept, attempt, pinned))
            return kept

        self._retention = Retention(retain)
        # A sweep that fails has deleted nothing that is needed; the next attempt sweeps again.
        self._ports.background.submit(work, self._retention.keep_older, lambda _: None)

    def committed(
        self, place: FileRef, manifest: Manifest, pending: Sequence[str], pinned: set[str]
    ) -> None:
        """An epoch is in the log: delete what only older ones needed, but not what others need.

        ``pending`` are the files of epochs that are under way.
        """
        paths = self._retention.completed(place, manifest, pending, pinned)
        storage = self._ports.storage

        if paths:
            self._ports.background.submit(
                lambda: delete_unneeded(storage, paths), lambda _: None, lambda _: None
            )

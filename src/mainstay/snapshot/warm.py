"""A warm storage: a process on standby has read the latest manifest before it is elected.

Manifests are never changed once they are stored, and a reader checks them against the commit log,
so one that was read ahead is as good as one that is read now. The log itself is always read again.
"""

from __future__ import annotations

from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.passing import PassingStorage
from mainstay.snapshot.storage import Storage


class WarmStorage(PassingStorage):
    """Passes everything on, but for the one file that it has read ahead."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._ahead: tuple[str, bytes] | None = None

    def read_ahead(self) -> int:
        """Read the manifest of the latest epoch, if it is another than the one that is known.

        Returns the first free slot of the log.
        """
        history = read_history(self._inner)
        latest = history.latest_epoch
        known = self._ahead
        if latest is not None and (known is None or known[0] != latest.manifest.path):
            path = latest.manifest.path
            self._ahead = (path, self._inner.read(path))
        return history.next_slot

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        ahead = self._ahead
        if ahead is None or ahead[0] != path or start or length is not None:
            return super().read(path, start, length)
        # Once: it may be large, and nobody reads it again.
        self._ahead = None
        return ahead[1]

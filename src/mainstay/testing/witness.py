"""A witness beside a storage: every slot that was ever created, and who deleted what too late."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.snapshot.layout import LOG_PREFIX
from mainstay.snapshot.passing import PassingStorage
from mainstay.snapshot.storage import BytesLike, Storage


class Witness(PassingStorage):
    """Passes everything on. ``slots`` has the bytes of each slot by its path, oldest first.

    Old slots are deleted while a job runs, so that afterwards only a witness knows them all.
    """

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.slots: dict[str, bytes] = {}

    def create(self, path: str, data: BytesLike) -> bool:
        is_created = super().create(path, data)
        if is_created and path.startswith(LOG_PREFIX):
            # One that was deleted may be created again, by a leader that slept; it does not count.
            self.slots.setdefault(path, bytes(data))
        return is_created


class Suspicious(PassingStorage):
    """The storage of one leader: tells of deletes that come after it was deposed."""

    def __init__(self, inner: Storage, is_deposed: Callable[[], bool], tell: Callable[[str], None]):
        super().__init__(inner)
        self._is_deposed = is_deposed
        self._tell = tell

    def delete(self, *paths: str) -> None:
        if paths and self._is_deposed():
            self._tell(f"a leader that was deposed deleted {', '.join(paths)}")
        self._inner.delete(*paths)

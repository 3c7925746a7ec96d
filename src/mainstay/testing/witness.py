"""A witness beside a storage: every slot that was ever created, and who deleted what too late."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.snapshot.layout import LOG_PREFIX
from mainstay.snapshot.storage import BytesLike, Paths, Storage


class Witness:
    """Passes everything on. ``slots`` has the bytes of each slot by its path, oldest first.

    Old slots are deleted while a job runs, so that afterwards only a witness knows them all.
    """

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.slots: dict[str, bytes] = {}

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._inner.read(path, start, length)

    def write(self, path: str, data: BytesLike) -> None:
        self._inner.write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        is_created = self._inner.create(path, data)
        if is_created and path.startswith(LOG_PREFIX):
            # One that was deleted may be created again, by a leader that slept; it does not count.
            self.slots.setdefault(path, bytes(data))
        return is_created

    def list(self, prefix: str) -> Paths:
        return self._inner.list(prefix)

    def delete(self, path: str) -> None:
        self._inner.delete(path)


class Suspicious:
    """The storage of one leader: tells of deletes that come after it was deposed."""

    def __init__(self, inner: Storage, is_deposed: Callable[[], bool], tell: Callable[[str], None]):
        self._inner = inner
        self._is_deposed = is_deposed
        self._tell = tell

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._inner.read(path, start, length)

    def write(self, path: str, data: BytesLike) -> None:
        self._inner.write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        return self._inner.create(path, data)

    def list(self, prefix: str) -> Paths:
        return self._inner.list(prefix)

    def delete(self, path: str) -> None:
        if self._is_deposed():
            self._tell(f"a leader that was deposed deleted {path}")
        self._inner.delete(path)

"""A leader's storage: it deletes nothing once the process does not lead any more.

What a leader has decided to delete may be done much later, by a thread that was frozen in between.
Reading and writing need no guard: what a deposed leader writes has a name of its own, and counts
only by a slot of the commit log.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstay.errors import NotLeadingError
from mainstay.snapshot.storage import BytesLike, Paths, Storage


class GuardedStorage:
    """Passes everything on, and asks before each delete whether this process still leads."""

    def __init__(self, inner: Storage, leads: Callable[[], bool]) -> None:
        self._inner = inner
        self._leads = leads

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._inner.read(path, start, length)

    def write(self, path: str, data: BytesLike) -> None:
        self._inner.write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        return self._inner.create(path, data)

    def list(self, prefix: str) -> Paths:
        return self._inner.list(prefix)

    def delete(self, path: str) -> None:
        if not self._leads():
            raise NotLeadingError(f"{path} is not deleted: this process does not lead any more.")
        self._inner.delete(path)

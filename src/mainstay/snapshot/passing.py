"""A storage that passes everything on to another: the base of those that change one verb."""

from __future__ import annotations

from mainstay.snapshot.storage import BytesLike, Paths, Storage


class PassingStorage:
    """Does what the storage inside it does."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._inner.read(path, start, length)

    def write(self, path: str, data: BytesLike) -> None:
        self._inner.write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        return self._inner.create(path, data)

    def list(self, prefix: str) -> Paths:
        return self._inner.list(prefix)

    def delete(self, *paths: str) -> None:
        self._inner.delete(*paths)

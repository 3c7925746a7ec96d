"""A storage that fails on purpose, as a seed says."""

from __future__ import annotations

from random import Random

from mainstay.errors import OutcomeUnknownError, SnapshotStorageError
from mainstay.snapshot.storage import BytesLike, Paths, Storage


class FaultyStorage:
    """Passes calls on, and fails a number of them: before, or after having done them."""

    def __init__(self, inner: Storage, random: Random, faults: int, odds: float = 0.03) -> None:
        self._inner = inner
        self._random = random
        self._left = faults
        self._odds = odds

    def _strikes(self) -> bool:
        if self._left and self._random.random() < self._odds:
            self._left -= 1
            return True
        return False

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self._strikes():
            raise SnapshotStorageError(f"simulated: {path} could not be read")
        return self._inner.read(path, start, length)

    def write(self, path: str, data: BytesLike) -> None:
        if self._strikes():
            if self._random.random() < 0.5:
                self._inner.write(path, data)
            raise SnapshotStorageError(f"simulated: {path} could not be written")
        self._inner.write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        if self._strikes():
            if self._random.random() < 0.5:
                self._inner.create(path, data)
            raise OutcomeUnknownError(f"simulated: whether {path} was created is unknown")
        return self._inner.create(path, data)

    def list(self, prefix: str) -> Paths:
        if self._strikes():
            raise SnapshotStorageError(f"simulated: {prefix} could not be listed")
        return self._inner.list(prefix)

    def delete(self, *paths: str) -> None:
        # One by one: a request for many may fail when some of them are gone.
        for path in paths:
            if self._strikes():
                raise SnapshotStorageError(f"simulated: {path} could not be deleted")
            self._inner.delete(path)

"""A worker's storage: it counts what is read of state, to say what a restore has cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from mainstay.snapshot.layout import STATE_PREFIX
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.passing import PassingStorage
from mainstay.snapshot.storage import Storage


class Reads:
    """Bytes of state files that were read so far: from copies on this host, and from storage."""

    def __init__(self) -> None:
        self.local_bytes = 0
        self.stored_bytes = 0
        self._lock = threading.Lock()

    def add(self, path: str, *, local: int = 0, stored: int = 0) -> None:
        if path.startswith(STATE_PREFIX):
            with self._lock:
                self.local_bytes += local
                self.stored_bytes += stored


class MeteredStorage(PassingStorage):
    """Passes everything on, and counts."""

    def __init__(self, inner: Storage, reads: Reads | None = None) -> None:
        super().__init__(inner)
        self.reads = reads or Reads()

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, start, length)
        self.reads.add(path, stored=len(data))
        return data

    def read_bytes(self) -> tuple[int, int]:
        return self.reads.local_bytes, self.reads.stored_bytes

    def named(self, owner: str, paths: Iterable[str]) -> None:
        """The files that the next epoch of an operator's subtask builds on."""

    def fetches(self, files: Iterable[FileRef]) -> list[Callable[[], None]]:
        """What brings files to this host ahead of their reading: nothing, where it keeps none."""
        return []

"""Storage in a dictionary: for simulation and tests, and gone with the process."""

from __future__ import annotations

import threading

from mainstay.snapshot.storage import BytesLike, NotFound, Paths


class MemoryStorage:
    """The storage contract at its plainest."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        with self._lock:
            data = self._files.get(path)
        if data is None:
            raise NotFound(f"cannot read {path} in memory: there is no such file")
        return data[start:] if length is None else data[start : start + length]

    def write(self, path: str, data: BytesLike) -> None:
        with self._lock:
            self._files[path] = bytes(data)

    def create(self, path: str, data: BytesLike) -> bool:
        with self._lock:
            if path in self._files:
                return False
            self._files[path] = bytes(data)
            return True

    def list(self, prefix: str) -> Paths:
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        with self._lock:
            return sorted(path for path in self._files if path.startswith(folder))

    def delete(self, *paths: str) -> None:
        with self._lock:
            for path in paths:
                self._files.pop(path, None)

"""What a listing says of stored files without reading them: how large, and how old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mainstay.snapshot.storage import Storage


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing has it; ``modified_at`` is the storage's clock, in seconds since 1970."""

    path: str
    size_bytes: int
    modified_at: float


class ListedStorage(Storage, Protocol):
    """A storage that also knows sizes and times: for inspection, no job needs them."""

    def entries(self, prefix: str) -> tuple[StoredFile, ...]:
        """Every file below a folder (``""``: below the root), sorted by path."""
        ...

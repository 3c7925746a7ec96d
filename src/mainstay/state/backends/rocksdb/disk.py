"""What the RocksDB backend needs of a database and of the disk that it lies on.

``rocks_disk`` keeps databases in files by RocksDB; ``mainstay.testing.memory_disk`` keeps them in
dictionaries, so that the simulation runs this backend. All that may take long goes through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from mainstay.state.backends.cached.stored_rows import WritableRows

Files: TypeAlias = "Iterable[tuple[str, bytes | Path]]"
"""Files by name, each read when it is asked for, or already on a disk: to be moved from there."""

ROWS = ".sst"
"""How the names of files with rows end. They never change, and no name is used again."""


class LocalCheckpoint(Protocol):
    """The files that hold all that a database held at one moment."""

    @property
    def rows(self) -> int:
        """About how many rows there are."""

    @property
    def ranges(self) -> Mapping[str, tuple[bytes, bytes]]:
        """The first and the last row key of files with rows, as far as they are known."""

    def names(self) -> list[str]:
        """The names of its files, in order."""

    def read(self, name: str) -> bytes:
        """A file of it."""

    def file(self, name: str) -> Path | None:
        """Where a file of it lies that never changes; None where it may, or is in no file."""

    def remove(self) -> None:
        """Nobody needs it any more."""


class Database(WritableRows, Protocol):
    """An open database."""

    def checkpoint(self) -> LocalCheckpoint:
        """Everything written so far. Nothing is written meanwhile."""

    def close(self) -> None:
        """Close it and remove its files. Nothing may use it any more."""


class Disk(Protocol):
    """Where the databases of a process lie, and the memory that they share."""

    @property
    def format(self) -> str:
        """The format of its checkpoints, as manifests name it."""

    @property
    def part_bytes(self) -> int:
        """What each backend may keep of rows in memory."""

    def join(self, user: Any) -> None:
        """A further backend keeps rows in memory, until it leaves or is gone."""

    def leave(self, user: Any) -> None:
        """A backend keeps no rows any more: the others may have its part."""

    def create(self, name: str) -> Database:
        """A new, empty database."""

    def open(self, name: str, files: Files) -> Database:
        """A database that goes on with the files of a checkpoint."""

    def open_to_read(self, files: Files, *, is_whole: bool) -> Database:
        """A database that is only read, of a whole checkpoint or of some of its files with rows."""

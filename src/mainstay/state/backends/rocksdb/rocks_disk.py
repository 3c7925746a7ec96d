"""The disk of a worker: databases by RocksDB, each in a directory of its own."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from mainstay.snapshot.manifest import CHECKPOINT
from mainstay.state.backends.rocksdb.database import RocksDatabase, make_openable
from mainstay.state.backends.rocksdb.directory import new_directory
from mainstay.state.backends.rocksdb.disk import Files
from mainstay.state.backends.rocksdb.memory import shared_memory
from mainstay.state.backends.rocksdb.settings import RocksSettings


class RocksDisk:
    """Databases of this process with the same settings. They share memory."""

    format = CHECKPOINT

    def __init__(self, settings: RocksSettings) -> None:
        self._directory = settings.directory
        self._memory = shared_memory(settings)

    @property
    def part_bytes(self) -> int:
        return self._memory.part_bytes

    def join(self, user: Any) -> None:
        self._memory.join(user)

    def leave(self, user: Any) -> None:
        self._memory.leave(user)

    def create(self, name: str) -> RocksDatabase:
        place = new_directory(self._directory, name)
        return RocksDatabase(place, self._memory, self._directory)

    def open(self, name: str, files: Files) -> RocksDatabase:
        place = _filled(new_directory(self._directory, name), files)
        return RocksDatabase(place, self._memory, self._directory)

    def open_to_read(self, files: Files, *, is_whole: bool) -> RocksDatabase:
        place = _filled(self._place_to_read(), files)
        if not is_whole:
            make_openable(place, self._memory)
        return RocksDatabase(place, self._memory, self._directory, read_only=True)

    def _place_to_read(self) -> Path:
        """Where no directory is named, one that is gone when it is closed, as a reader is."""
        if self._directory is None:
            return Path(tempfile.mkdtemp(prefix="mainstay-"))
        return new_directory(self._directory, "read")


def _filled(place: Path, files: Files) -> Path:
    try:
        for file, data in files:
            if isinstance(data, Path):
                # A link of ours; on another device it is copied.
                shutil.move(data, place / file)
            else:
                (place / file).write_bytes(data)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return place

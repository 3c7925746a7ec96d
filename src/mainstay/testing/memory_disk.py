"""Databases of the RocksDB backend in memory: no files, no threads, no chance.

The simulation runs the backend over this. A database works as RocksDB does where others can tell:
what was written since the last checkpoint becomes a new file, files never change and names are
never used again, and files are merged when there are many, so that a checkpoint shares some of its
files with the one before. A file says of each row when it was written, so that some of the files
can be read without the others.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mainstay.errors import DamagedFileError
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.cached.stored_rows import Change, Row
from mainstay.state.backends.contract import KeyedBackend, Place
from mainstay.state.backends.rocksdb.backend import RocksBackend
from mainstay.state.backends.rocksdb.checkpoint import read_checkpoint
from mainstay.state.backends.rocksdb.disk import ROWS, Files
from mainstay.state.segments import OWN_FORMATS

FORMAT = "checkpoint-in-memory"
_LIST = "MANIFEST"
_MOST_FILES = 4
"""Files beyond which all are merged into new ones."""

Rows = dict[bytes, tuple[int, "bytes | None"]]
"""What a file says of row keys: when it was written, and the value; None where it was removed."""


@dataclass(frozen=True, slots=True)
class MemoryRocksSettings:
    """The RocksDB backend with its databases in memory. ``part_bytes`` is for the rows that each
    subtask of an operator caches, and for its changes; a merge makes files of ``file_rows``."""

    part_bytes: int = 1 << 20
    file_rows: int = 64

    def open(self, place: Place) -> KeyedBackend:
        return RocksBackend(place, MemoryDisk(self.part_bytes, self.file_rows))


@dataclass(frozen=True, slots=True)
class MemoryDisk:
    """The databases of one backend. Each backend has the same memory, however many there are."""

    part_bytes: int = 1 << 20
    file_rows: int = 64

    @property
    def format(self) -> str:
        return FORMAT

    def join(self, user: Any) -> None:
        """Nothing is shared."""

    def leave(self, user: Any) -> None:
        """Nothing was shared."""

    def create(self, name: str) -> MemoryDatabase:
        return MemoryDatabase(self.file_rows)

    def open(self, name: str, files: Files) -> MemoryDatabase:
        return self.open_to_read(files, is_whole=True)

    def open_to_read(self, files: Files, *, is_whole: bool) -> MemoryDatabase:
        found = {name: _in_memory(data) for name, data in files}
        tables = {name: _decoded(data) for name, data in found.items() if name.endswith(ROWS)}
        if not is_whole:
            return MemoryDatabase(self.file_rows, tables)
        listed = json.loads(found[_LIST])
        if listed["files"] != sorted(tables):
            raise DamagedFileError(f"a database of {listed['files']} has {sorted(tables)}")
        return MemoryDatabase(self.file_rows, tables, listed["next_file"], listed["writes"])


@dataclass(frozen=True, slots=True)
class MemoryCheckpoint:
    """The files of a database at one moment."""

    rows: int
    ranges: Mapping[str, tuple[bytes, bytes]]
    files: dict[str, bytes]

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str) -> bytes:
        return self.files[name]

    def file(self, name: str) -> None:
        return None

    def remove(self) -> None:
        self.files.clear()


@dataclass(slots=True)
class MemoryDatabase:
    """A database: its files, and the rows written since the last of them."""

    file_rows: int
    files: dict[str, Rows] = field(default_factory=dict)
    next_file: int = 1
    writes: int = 0
    _new: Rows = field(default_factory=dict)
    _found: dict[bytes, bytes] = field(default_factory=dict)
    _keys: list[bytes] = field(default_factory=list)
    _is_closed: bool = False

    def __post_init__(self) -> None:
        newest = _merged(self.files.values())
        self._found = {key: value for key, (_, value) in newest.items() if value is not None}
        self._keys = sorted(self._found)

    def get_many(self, row_keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        return [self._found.get(row_key) for row_key in row_keys]

    def write_columns(self, row_keys: Sequence[bytes], cells: Sequence[bytes | None]) -> None:
        self.write(zip(row_keys, cells, strict=True))

    def write(self, changes: Iterable[Change]) -> None:
        self._check_open()
        for row_key, value in changes:
            self.writes += 1
            self._new[row_key] = (self.writes, value)
            if value is not None:
                if row_key not in self._found:
                    insort(self._keys, row_key)
                self._found[row_key] = value
            elif self._found.pop(row_key, None) is not None:
                del self._keys[bisect_left(self._keys, row_key)]

    def scan(self, start: bytes, end: bytes | None) -> Generator[Row, None, None]:
        self._check_open()
        last = len(self._keys) if end is None else bisect_left(self._keys, end)
        found = self._keys[bisect_left(self._keys, start) : last]
        yield from [(row_key, self._found[row_key]) for row_key in found]

    def checkpoint(self) -> MemoryCheckpoint:
        self._check_open()
        self._flush()
        listed = {"files": sorted(self.files), "next_file": self.next_file, "writes": self.writes}
        files = {name: _encoded(rows) for name, rows in self.files.items()}
        ranges = {name: (min(rows), max(rows)) for name, rows in self.files.items()}
        return MemoryCheckpoint(
            len(self._found), ranges, {**files, _LIST: json.dumps(listed).encode()}
        )

    def _flush(self) -> None:
        if self._new:
            self._add(self._new)
            self._new = {}
        if len(self.files) > _MOST_FILES:
            merged = {k: v for k, v in _merged(self.files.values()).items() if v[1] is not None}
            self.files = {}
            keys = sorted(merged)
            for start in range(0, len(keys), self.file_rows):
                self._add({key: merged[key] for key in keys[start : start + self.file_rows]})

    def _add(self, rows: Rows) -> None:
        self.files[f"{self.next_file:06d}{ROWS}"] = rows
        self.next_file += 1

    def _check_open(self) -> None:
        assert not self._is_closed, "a database is used that was closed"

    def close(self) -> None:
        self._is_closed = True


def _merged(files: Iterable[Rows]) -> Rows:
    """What was written last of each row key."""
    newest: Rows = {}
    for rows in files:
        for row_key, entry in rows.items():
            if row_key not in newest or newest[row_key][0] < entry[0]:
                newest[row_key] = entry
    return newest


def _encoded(rows: Rows) -> bytes:
    return json.dumps(
        [[k.hex(), n, None if v is None else v.hex()] for k, (n, v) in sorted(rows.items())]
    ).encode()


def _in_memory(data: bytes | Path) -> bytes:
    return data.read_bytes() if isinstance(data, Path) else data


def _decoded(data: bytes) -> Rows:
    return {
        bytes.fromhex(key): (number, None if value is None else bytes.fromhex(value))
        for key, number, value in json.loads(data)
    }


def _read(storage: Storage, ref: SegmentRef) -> list[StateTable]:
    return read_checkpoint(storage, ref, MemoryDisk())


OWN_FORMATS[FORMAT] = _read

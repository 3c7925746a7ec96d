"""A RocksDB database on the local disk: reads and writes in bulk, scans, checkpoints.

Nothing is logged ahead and nothing is forced to disk: what is durable is durable by snapshots, and
a database dies with its process.
"""

from __future__ import annotations

import shutil
import weakref
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mainstay.errors import DamagedFileError
from mainstay.state.backends.cached.stored_rows import Change, Row
from mainstay.state.backends.rocksdb.directory import new_directory
from mainstay.state.backends.rocksdb.disk import ROWS
from mainstay.state.backends.rocksdb.memory import SharedMemory, load_rocksdict

_TARGET_FILE_BYTES = 16 << 20
_LARGEST_WRITE_BUFFER_BYTES = 32 << 20
_BATCH_ROWS = 4096
# What a database writes for people, for its log and for its lock is no part of what it holds.
_LEFT_OUT = (".log", "LOG", "LOCK", "IDENTITY", "OPTIONS")


@dataclass(frozen=True, slots=True)
class LinkedCheckpoint:
    """Hard links to the files of a database. They keep files that the database drops."""

    directory: Path
    rows: int
    ranges: Mapping[str, tuple[bytes, bytes]]

    def names(self) -> list[str]:
        found = sorted(file.name for file in self.directory.iterdir())
        return [name for name in found if not any(part in name for part in _LEFT_OUT)]

    def read(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def file(self, name: str) -> Path | None:
        return self.directory / name if name.endswith(ROWS) else None

    def remove(self) -> None:
        shutil.rmtree(self.directory.parent, ignore_errors=True)


class RocksDatabase:
    """An open database in a directory. ``checkpoints`` is the place for links to its files."""

    def __init__(
        self,
        path: Path,
        memory: SharedMemory,
        checkpoints: str | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self._library = load_rocksdict()
        self._checkpoints = checkpoints
        access = self._library.AccessType
        try:
            self._db: Any = self._library.Rdict(
                str(path),
                _options(self._library, memory),
                access_type=access.read_only() if read_only else access.read_write(),
            )
        except Exception as error:
            shutil.rmtree(path, ignore_errors=True)
            raise DamagedFileError(
                f"the database at {path} cannot be opened: {error}. {_remedy(error)}"
            ) from error
        self._write_options = self._library.WriteOptions()
        self._write_options.disable_wal = True
        # Lists, because one step adds to them or takes from them, whichever thread it is on.
        self._users: list[None] = []
        self._to_shut = [self._db]
        self._is_closing = False
        # A database that is dropped without being closed leaves no files behind either.
        self._removal = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Keep it open meanwhile: it is used in the background, too, and closed in between it
        would be of no use to that."""
        self._users.append(None)
        try:
            yield
        finally:
            self._users.pop()
            if self._is_closing:
                self._shut_if_unused()

    def get_many(self, row_keys: Sequence[bytes]) -> list[bytes | None]:
        with self._in_use():
            found: list[bytes | None] = self._db.get(list(row_keys))
        return found

    def write(self, changes: Iterable[Change]) -> None:
        """Write rows, a batch at a time."""
        with self._in_use():
            self._write(changes)

    def write_columns(self, row_keys: Sequence[bytes], cells: Sequence[bytes | None]) -> None:
        if None in cells:
            self.write(zip(row_keys, cells, strict=True))
            return
        with self._in_use():
            for start in range(0, len(row_keys), _BATCH_ROWS):
                some = slice(start, start + _BATCH_ROWS)
                batch = self._library.WriteBatch(raw_mode=True)
                # A loop in Python costs as much again as what it calls.
                deque(map(batch.put, row_keys[some], cells[some]), maxlen=0)
                self._db.write(batch, self._write_options)

    def _write(self, changes: Iterable[Change]) -> None:
        left = iter(changes)
        while some := list(islice(left, _BATCH_ROWS)):
            batch = self._library.WriteBatch(raw_mode=True)
            put, delete = batch.put, batch.delete
            for row_key, value in some:
                if value is None:
                    delete(row_key)
                else:
                    put(row_key, value)
            self._db.write(batch, self._write_options)

    def scan(self, start: bytes, end: bytes | None) -> Generator[Row, None, None]:
        """The rows from one row key up to another, in order, as of now."""
        options = self._library.ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        # The iterator does not keep the bound alive, so its reader must keep the options.
        yield from self._db.items(from_key=start, read_opt=options)
        del options

    def checkpoint(self) -> LinkedCheckpoint:
        with self._in_use():
            return self._linked()

    def _linked(self) -> LinkedCheckpoint:
        directory = new_directory(self._checkpoints, "checkpoint") / "files"
        self._db.flush()
        self._library.Checkpoint(self._db).create_checkpoint(str(directory))
        # A file that was replaced since is not known, and so it is one that everybody needs.
        ranges = {
            file["name"].lstrip("/"): (file["start_key"], file["end_key"])
            for file in self._db.live_files()
        }
        rows = int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)
        return LinkedCheckpoint(directory, rows, ranges)

    def close(self) -> None:
        """Close it and remove its files; what still uses it in the background does so in the end.
        Nothing may begin to use it any more."""
        self._is_closing = True
        self._shut_if_unused()

    def _shut_if_unused(self) -> None:
        if self._users:
            return
        try:
            database = self._to_shut.pop()
        except IndexError:
            return  # the other of the two that found it unused was quicker
        database.close()
        self._removal()


def make_openable(path: Path, memory: SharedMemory) -> None:
    """Let files with rows that were put into a directory be opened as a database of just them.

    A file says of each row when it was written, so which of two is newer is known without the list
    of files that they come from.
    """
    library = load_rocksdict()
    try:
        library.Rdict.repair(str(path), _options(library, memory))
    except Exception as error:
        raise DamagedFileError(
            f"the files at {path} cannot be read: {error}. {_remedy(error)}"
        ) from error


def _options(library: Any, memory: SharedMemory) -> Any:
    table = library.BlockBasedOptions()
    table.set_block_cache(memory.block_cache)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_data_block_index_type(library.DataBlockIndexType.binary_and_hash())
    table.set_bloom_filter(10, False)
    # In parts, of which what is used stays in the cache: the filter of a whole file may be more
    # than one of the cache's shards can hold, and would be read anew for each lookup.
    table.set_index_type(library.BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    table.set_format_version(5)
    options = library.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(memory.write_buffers)
    whole = memory.settings.write_buffer_bytes
    options.set_write_buffer_size(min(_LARGEST_WRITE_BUFFER_BYTES, max(whole // 4, 1 << 20)))
    options.set_max_write_buffer_number(3)
    # A new key is looked for before it is written: filters answer for what is not there.
    options.set_memtable_prefix_bloom_ratio(0.1)
    options.set_memtable_whole_key_filtering(True)
    options.set_target_file_size_base(_TARGET_FILE_BYTES)
    options.set_max_bytes_for_level_base(4 * _TARGET_FILE_BYTES)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(library.DBCompressionType.lz4())
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(1 << 20)
    return options


_REMEDIES = {
    "Too many open files": "Let the process open more: ulimit -n.",
    "No space left": "Make room on that disk, or name another with RocksDB(directory=...).",
    "Permission denied": "Name a directory of this user's own with RocksDB(directory=...).",
    "Read-only file system": "Name a directory that can be written with RocksDB(directory=...).",
}


def _remedy(error: Exception) -> str:
    """The disk may refuse files that are whole."""
    found = (remedy for reason, remedy in _REMEDIES.items() if reason in str(error))
    return next(found, "Restore an older epoch.")

"""What a job says about state in RocksDB, and how its one memory setting is divided.

The setting is for a whole worker process, whichever and however many states it holds. Of it,
RocksDB gets its block cache (which holds the indexes and filters as well) and its write buffers;
the rows that are kept as Python objects get their share; the rest is room for what moves
between them, and for what allocators do not give back.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstay.state.backends.contract import KeyedBackend, Place

BLOCK_CACHE_SHARE = 0.15
WRITE_BUFFER_SHARE = 0.10
ROWS_SHARE = 0.22

SMALLEST_MEMORY_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """State in RocksDB: the memory of a worker process, and where its files lie.

    Without a directory the files lie below the system's directory for temporary files.
    """

    memory_bytes: int = 512 << 20
    directory: str | None = None

    def open(self, place: Place) -> KeyedBackend:
        from mainstay.state.backends.rocksdb.backend import RocksBackend
        from mainstay.state.backends.rocksdb.rocks_disk import RocksDisk

        return RocksBackend(place, RocksDisk(self))

    @property
    def block_cache_bytes(self) -> int:
        return int(self.memory_bytes * BLOCK_CACHE_SHARE)

    @property
    def write_buffer_bytes(self) -> int:
        return int(self.memory_bytes * WRITE_BUFFER_SHARE)

    @property
    def rows_bytes(self) -> int:
        """For the rows in memory: the cache, the active segments and the frozen ones."""
        return int(self.memory_bytes * ROWS_SHARE)

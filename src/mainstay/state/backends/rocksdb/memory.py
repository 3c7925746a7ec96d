"""The memory of a process for state in RocksDB: one setting, shared by all its databases.

The block cache and the write buffers are shared objects of RocksDB. The rows that are kept as
Python objects are counted by estimate, and what each table may keep is an equal part of their
share: a table that is opened makes the parts of the others smaller.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from mainstay.errors import GraphError
from mainstay.state.backends.rocksdb.settings import RocksSettings

if TYPE_CHECKING:
    import rocksdict

_SHARED: dict[tuple[int, RocksSettings], SharedMemory] = {}


def load_rocksdict() -> Any:
    """The library, which is installed by an extra."""
    try:
        import rocksdict
    except ImportError as error:
        raise GraphError(
            f"state in RocksDB needs the package rocksdict ({error}). Install mainstay[rocksdb] "
            "where the job is started and on every machine that runs its workers."
        ) from error
    return rocksdict


def shared_memory(settings: RocksSettings) -> SharedMemory:
    """What all databases of this process with these settings share."""
    # By process, because a forked one shares nothing with its parent.
    known = (os.getpid(), settings)
    if known not in _SHARED:
        _SHARED[known] = SharedMemory(settings)
    return _SHARED[known]


class SharedMemory:
    """The caches of a process, and the share of its rows."""

    def __init__(self, settings: RocksSettings) -> None:
        library = load_rocksdict()
        self.settings = settings
        self.block_cache: rocksdict.Cache = library.Cache(settings.block_cache_bytes)
        self.write_buffers: rocksdict.WriteBufferManager = library.WriteBufferManager(
            settings.write_buffer_bytes, False
        )
        self._users: weakref.WeakSet[Any] = weakref.WeakSet()

    def join(self, user: Any) -> None:
        """Somebody else keeps rows in memory, until it leaves or is gone."""
        self._users.add(user)

    def leave(self, user: Any) -> None:
        """It keeps no rows any more, also if it is not collected yet."""
        self._users.discard(user)

    @property
    def part_bytes(self) -> int:
        """What each of those may keep in memory."""
        return self.settings.rows_bytes // max(1, len(self._users))

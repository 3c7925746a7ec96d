"""Where keyed state is kept, as a job's author writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from mainstay.errors import GraphError
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import size
from mainstay.runtime.options import SnapshotOptions
from mainstay.snapshot.storage import absolute
from mainstay.spelling import did_you_mean
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.backends.rocksdb.memory import load_rocksdict
from mainstay.state.backends.rocksdb.settings import SMALLEST_MEMORY_BYTES, RocksSettings

HEAP = "heap"


@made_with_own_frames
@dataclass(frozen=True, slots=True)
class RocksDB:
    """Keep keyed state in RocksDB, on the disks of the workers, for state beyond their memory.

    ``memory`` is for the whole process of a worker, whatever it holds. ``directory`` is where the
    databases lie; without it, below the directory for temporary files of each machine.
    """

    memory: str | int = "512MiB"
    directory: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.directory is not None:
            object.__setattr__(self, "directory", absolute(self.directory))
        self.parsed()
        load_rocksdict()

    def parsed(self) -> RocksSettings:
        directory = None if self.directory is None else os.fspath(self.directory)
        memory_bytes = size(self.memory, "memory")
        if memory_bytes < SMALLEST_MEMORY_BYTES:
            least = SMALLEST_MEMORY_BYTES >> 20
            raise GraphError(f"RocksDB(memory={self.memory!r}) must be at least {least}MiB.")
        return RocksSettings(memory_bytes, directory)


def with_directory(snapshots: SnapshotOptions, backend: BackendSettings) -> SnapshotOptions:
    """Copies of state files lie where the databases do, so that a link is enough."""
    local = snapshots.local_recovery
    if local.directory is not None or not isinstance(backend, RocksSettings):
        return snapshots
    return replace(snapshots, local_recovery=replace(local, directory=backend.directory))


def _meant_state(state: Any) -> str:
    is_rocksdb = isinstance(state, str) and "rock" in state.lower()
    return " Did you mean 'ms.RocksDB()'?" if is_rocksdb else did_you_mean(state, [HEAP])


def backend_settings(state: Any) -> BackendSettings:
    """What ``Environment(state=...)`` asks for."""
    if isinstance(state, RocksDB):
        return state.parsed()
    if callable(getattr(state, "open", None)):
        # A backend of its own, such as that of a connector.
        settings: BackendSettings = state
        return settings
    if state != HEAP:
        raise GraphError(
            f'state={state!r} is unknown. Use "heap" for state in memory, or ms.RocksDB(...) for '
            f"state beyond it, or ms.Postgres(dsn) for state in a database.{_meant_state(state)}"
        )
    return HeapSettings()

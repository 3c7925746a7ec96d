"""Where keyed state is kept, as a job's author writes it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from mainstay.errors import GraphError
from mainstay.snapshot.storage import absolute
from mainstay.spelling import did_you_mean
from mainstay.state.backends.rocksdb_memory import load_rocksdict
from mainstay.state.backends.rocksdb_settings import SMALLEST_MEMORY_BYTES, RocksSettings

HEAP = "heap"
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


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


def size(text: str | int, name: str) -> int:
    """Bytes of "512MiB", "2 GB", or a number of bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]i?B)\s*", str(text))
    if found is None:
        raise GraphError(
            f'{name}={text!r} is no size. Write a number and a unit, as in "512MiB" or "2GiB".'
            f"{_meant(text)}"
        )
    return int(float(found.group(1)) * _UNITS[found.group(2)])


def _meant_state(state: Any) -> str:
    is_rocksdb = isinstance(state, str) and "rock" in state.lower()
    return " Did you mean 'ms.RocksDB()'?" if is_rocksdb else did_you_mean(state, [HEAP])


def _meant(text: Any) -> str:
    """The size that was probably meant where the unit is misspelt."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", str(text))
    if found is None:
        return ""
    number, unit = found.groups()
    near = unit if len(unit) > 1 else f"{unit}iB"
    return did_you_mean(f"{number}{near}", [f"{number}{known}" for known in _UNITS])


def backend_settings(state: Any) -> RocksSettings | None:
    """What ``Environment(state=...)`` asks for; None is the heap."""
    if isinstance(state, RocksDB):
        return state.parsed()
    if state != HEAP:
        raise GraphError(
            f'state={state!r} is unknown. Use "heap" for state in memory, or ms.RocksDB(...) for '
            f"state beyond it.{_meant_state(state)}"
        )
    return None

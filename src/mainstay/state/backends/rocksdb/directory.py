"""Directories of local state: a fresh one for each database, and none left behind by the dead.

A database lies in a directory that no other process ever opens, so a lock is never fought over
after a kill. What a killed process leaves is removed by the next one that uses the same place: a
process holds a lock on its directory's ``owner`` file for as long as it lives, however it ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from mainstay.snapshot.local_root import default_root

try:
    import fcntl
except ImportError:  # a system without it cannot tell the dead from the living, and keeps all
    fcntl = None  # type: ignore[assignment, unused-ignore]

_OWNER = "owner"

# The directory of this process below each place, with the open file that marks it as its own.
_OWN: dict[tuple[int, str], tuple[Path, IO[bytes]]] = {}


def new_directory(place: str | None, name: str) -> Path:
    """An empty directory for a database of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_own_directory(place)))


def _own_directory(place: str | None) -> Path:
    root = Path(place) if place is not None else default_root()
    # A forked process must not take its parent's directory for its own.
    known = (os.getpid(), str(root))
    if known not in _OWN:
        if place is not None:
            root.mkdir(parents=True, exist_ok=True)
        remove_leftovers(root)
        claimed = _claimed(root)
        # Several threads may come here at once; the directory of the first is that of all.
        if _OWN.setdefault(known, claimed) is not claimed:
            _remove_own(os.getpid(), *claimed)
    return _OWN[known][0]


def _claimed(root: Path) -> tuple[Path, IO[bytes]]:
    """A new directory, locked so that no sweeper takes it for an orphan."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix="worker-", dir=root))
        owner = open(directory / _OWNER, "wb")  # noqa: SIM115 - held until the process ends
        if _is_locked_in_time(owner, directory):
            # Only the one that claimed it: a forked process ends with its parent's list of these.
            atexit.register(_remove_own, os.getpid(), directory, owner)
            return directory, owner
        owner.close()


def _is_locked_in_time(owner: IO[bytes], directory: Path) -> bool:
    """Whether the lock was had before somebody took the directory for abandoned.

    Who does so holds the lock until it has removed the directory, so that one look is enough.
    """
    if fcntl is not None:
        fcntl.flock(owner, fcntl.LOCK_EX)
    return (directory / _OWNER).exists()


def _remove_own(process: int, directory: Path, owner: IO[bytes]) -> None:
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)
        owner.close()


def remove_leftovers(root: Path) -> list[Path]:
    """Remove the directories below a place whose processes have ended."""
    removed: list[Path] = []
    if fcntl is None:
        return removed  # type: ignore[unreachable, unused-ignore]
    for directory in root.glob("worker-*"):
        try:
            with open(directory / _OWNER, "rb") as owner:
                # A lock of this process is another open file, and refuses as anybody else's does.
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Under the lock: who made the directory this moment and waits for it looks again.
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
        except OSError:
            # Somebody holds it, or has not claimed it yet, or has removed it by now.
            continue
    return removed

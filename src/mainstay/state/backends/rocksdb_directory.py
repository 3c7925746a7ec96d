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

try:
    import fcntl
except ImportError:  # a system without it cannot tell the dead from the living, and keeps all
    fcntl = None  # type: ignore[assignment, unused-ignore]

NAME = "mainstay-state"
_OWNER = "owner"

# The directory of this process below each place, with the open file that marks it as its own.
_OWN: dict[tuple[int, str], tuple[Path, IO[bytes]]] = {}


def new_directory(place: str | None, name: str) -> Path:
    """An empty directory for a database of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_own_directory(place)))


def _own_directory(place: str | None) -> Path:
    root = Path(place) if place is not None else Path(tempfile.gettempdir()) / NAME
    # A forked process must not take its parent's directory for its own.
    known = (os.getpid(), str(root))
    if known not in _OWN:
        root.mkdir(parents=True, exist_ok=True)
        remove_leftovers(root)
        claimed = _claimed(Path(tempfile.mkdtemp(prefix="worker-", dir=root)))
        # Several threads may come here at once; the directory of the first is that of all.
        if _OWN.setdefault(known, claimed) is not claimed:
            claimed[1].close()
            shutil.rmtree(claimed[0], ignore_errors=True)
    return _OWN[known][0]


def _claimed(directory: Path) -> tuple[Path, IO[bytes]]:
    owner = open(directory / _OWNER, "wb")  # noqa: SIM115 - held until the process ends
    if fcntl is not None:
        fcntl.flock(owner, fcntl.LOCK_EX)
    # Only the one that claimed it: a forked process ends with its parent's list of these.
    atexit.register(_remove_own, os.getpid(), directory)
    return directory, owner


def _remove_own(process: int, directory: Path) -> None:
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def remove_leftovers(root: Path) -> list[Path]:
    """Remove the directories below a place whose processes have ended."""
    removed: list[Path] = []
    if fcntl is None:
        return removed  # type: ignore[unreachable, unused-ignore]
    for directory in root.glob("worker-*"):
        if _is_abandoned(directory):
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory)
    return removed


def _is_abandoned(directory: Path) -> bool:
    try:
        with open(directory / _OWNER, "rb") as owner:
            # A lock of this process is another open file, and refuses as anybody else's does.
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        # Somebody holds it, or has not claimed it yet, or has removed it by now.
        return False

"""The folder of this user for state on a local disk, where a job names no other."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from mainstay.errors import SparkSetupError

NAME = "mainstay-state"


def default_root() -> Path:
    """A directory of this user alone, below that of all users' temporary files."""
    # The owner of the directory can put another in the place of one below it.
    user = os.getuid() if hasattr(os, "getuid") else None
    root = Path(tempfile.gettempdir()) / (NAME if user is None else f"{NAME}-{user}")
    make_private(root)
    if not is_private(root):
        raise SparkSetupError(
            f"{root}, where state would be kept on this machine, is no directory of this user "
            "alone. Remove it, or name another with RocksDB(directory=...)."
        )
    return root


def make_private(folder: Path) -> None:
    """Make a folder of this user alone, unless something is there."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def is_private(folder: Path) -> bool:
    """Whether it is a directory, and nobody but this user can read or change what is in it."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)

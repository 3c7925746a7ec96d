"""A directory that a sink writes to: on a disk that all machines see, and one sink's alone.

The file ``_mainstay/owner`` says whose it is. Where it is missing although the sink has written
before, the disk is not mounted.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator

from mainstay.connectors.files.hive_partitions import is_hidden
from mainstay.connectors.files.spark_log import local_path
from mainstay.errors import SinkError, SnapshotStorageError
from mainstay.runtime.connector import SinkContext
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import NotFound, Storage
from mainstay.snapshot.store_urls import refuse_torn

FOLDER = "_mainstay"
"""What is in it is for Mainstay only; readers of directories pass over the name."""
OWNER = f"{FOLDER}/owner"


def directory_of(path: str | os.PathLike[str], error: type[Exception]) -> str:
    """The absolute local path of a directory that need not exist."""
    text = os.fspath(path)
    refuse_torn(text, error)
    local = local_path(text) if "://" in text else text
    if not local:
        raise error(
            f"{text!r} is not a directory on a local or mounted disk; only there are files "
            "written. Give a path or a file:/// URL."
        )
    directory = os.path.abspath(os.path.expanduser(local))
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise error(f"{directory!r} is a file. Name a directory.")
    return directory


def is_claimed(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, OWNER))


def is_owned(directory: str, lineage: str, uid: str) -> bool:
    """Whether it is this sink's: nobody may clean up what belongs to another."""
    return is_claimed(directory) and _owner(open_storage(directory)) == _name(lineage, uid)


def check_is_mounted(directory: str) -> None:
    """A directory that has gone as a whole may come back: that is no reason to give up."""
    if not is_claimed(directory):
        raise FileNotFoundError(
            f"the directory {directory!r} or its file {OWNER!r} is not there; mount it again."
        )


def claim(directory: str, context: SinkContext, check_is_free: Callable[[], None]) -> None:
    """Make the directory and make it this sink's, or refuse one that is another's.

    ``check_is_free`` raises a ``SinkError`` where something is in it that must not be.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        _claim(directory, context, check_is_free)
    except (OSError, SnapshotStorageError) as error:
        raise no_access(directory, context, error) from error


def no_access(directory: str, context: SinkContext, error: Exception) -> SinkError:
    return SinkError(
        f"sink {context.uid!r} cannot write to the directory {directory!r}: {error}. Grant "
        "write permission or choose another directory."
    )


def _claim(directory: str, context: SinkContext, check_is_free: Callable[[], None]) -> None:
    storage = open_storage(directory)
    us = _name(context.lineage, context.uid)
    owner = _owner(storage)
    if owner is None:
        _check_is_still_free(storage, check_is_free)
        # Of several subtasks one creates it; what counts is what it says.
        storage.create(OWNER, us.encode())
        owner = _owner(storage)
    if owner != us:
        raise SinkError(
            f"the directory {directory!r} belongs to {owner} and not to {us} (job and sink). "
            f"Choose another directory, or, if that job will never run again, write {us} to "
            f"the file {OWNER!r} in this one."
        )


def _check_is_still_free(storage: Storage, check_is_free: Callable[[], None]) -> None:
    try:
        check_is_free()
    except SinkError:
        # Parts come after the owner: what was found may be another subtask's first part.
        if _owner(storage) is None:
            raise


def _name(lineage: str, uid: str) -> str:
    return json.dumps([lineage, uid])


def _owner(storage: Storage) -> str | None:
    try:
        return storage.read(OWNER).decode().strip()
    except NotFound:
        return None


def remove(path: str) -> None:
    """Remove a file that may have gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def files_below(directory: str) -> Iterator[str]:
    """The paths of all files in it, but for those in folders that are no reader's concern."""
    for folder, inner, names in os.walk(directory):
        inner[:] = [name for name in inner if not is_hidden(name)]
        yield from (os.path.join(folder, name) for name in names)

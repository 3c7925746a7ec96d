"""A probe of an object store: of several writers who create one object together, one must win.

The commit log rests on it, and some servers that speak a cloud's protocol look whether a key is
free and store in two steps. A job on such a server would run well until two drivers meet, and then
lose what one of them has committed; so it is refused before it starts.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mainstay.errors import SnapshotStorageError
from mainstay.masking import masked
from mainstay.snapshot.layout import probe_path
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage

WRITERS = 8
ROUNDS = 3
_PROBED = ("s3://", "gs://", "az://")

_log = logging.getLogger("mainstay")


def check_creates(place: str, opened: Callable[[str], Storage] = open_storage) -> None:
    """Refuse an object store that lets two writers win.

    A store that cannot be reached is left to the job, which knows how to wait for it.
    """
    if not place.startswith(_PROBED):
        return
    try:
        storage = opened(place)
        for _ in range(ROUNDS):
            _check_once(storage, place)
    except _WrongStoreError as error:
        raise SnapshotStorageError(str(error)) from None
    except SnapshotStorageError as error:
        _log.info("whether %s creates objects only once was not found out: %s", place, error)


class _WrongStoreError(Exception):
    """The store does not do what a commit log needs."""


def _check_once(storage: Storage, place: str) -> None:
    # A name of its own: nobody else, of this job or another, ever writes there.
    path = probe_path(uuid.uuid4().hex)
    # A store that cannot be reached is not waited for again, to delete what may be there.
    won = _create_together(storage, path)
    try:
        if won.count(True) != 1 or storage.read(path) != _mark(won.index(True)):
            raise _WrongStoreError(
                f"the storage {masked(place)} let {won.count(True)} of {WRITERS} writers create "
                "the same object, where exactly one may win: two drivers could both commit, and "
                "the work of one would be lost. Use a store whose conditional writes "
                "(If-None-Match) are atomic, such as S3, GCS, Azure or MinIO."
            )
    finally:
        storage.delete(path)


def _create_together(storage: Storage, path: str) -> list[bool]:
    ready = threading.Barrier(WRITERS)

    def create(number: int) -> bool:
        ready.wait()
        return storage.create(path, _mark(number))

    with ThreadPoolExecutor(WRITERS) as writers:
        return list(writers.map(create, range(WRITERS)))


def _mark(number: int) -> bytes:
    return b"writer %d of a probe, which may be deleted\n" % number

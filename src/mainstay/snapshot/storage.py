"""Snapshot storage: the five verbs that everything durable is built from.

A path is relative to the storage's root and uses ``/``; ``layout`` is the only module that spells
one. The commit log rests on ``create``: of any number of callers with different bytes, exactly one
gets True.
"""

from __future__ import annotations

import os
from typing import Protocol, TypeAlias

from mainstay.errors import SnapshotStorageError, SparkSetupError

BytesLike: TypeAlias = "bytes | bytearray | memoryview"
Paths: TypeAlias = "list[str]"


class NotFound(SnapshotStorageError):  # noqa: N818 - a finding rather than a fault
    """There is nothing stored at this path."""


class Storage(Protocol):
    """What Mainstay needs of a place that keeps files. Safe to call from several threads.

    Every verb raises ``SnapshotStorageError``, naming the path, when the storage fails.
    """

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from ``start``, at most ``length`` of them, all of them when it is None.

        Fewer come back where the file ends sooner, none when it ends before ``start``.
        Raises ``NotFound`` when there is no such file.
        """
        ...

    def write(self, path: str, data: BytesLike) -> None:
        """Store a file, replacing what was there; a reader sees the old or the new one whole.

        The file is durable when this returns.
        """
        ...

    def create(self, path: str, data: BytesLike) -> bool:
        """Store a file unless the path is taken; True when this call stored it.

        False means that something else is there. Of several callers with the same bytes more than
        one may get True: where that matters, the bytes carry a token of the caller's own.
        Raises ``OutcomeUnknownError`` when it cannot tell.
        """
        ...

    def list(self, prefix: str) -> Paths:
        """Every path below a folder (``""``: below the root), sorted. An absent folder is empty."""
        ...

    def delete(self, *paths: str) -> None:
        """Remove files, in any order, in as few requests as can be; an absent one is no error.

        Raises when one cannot be removed. Others may be gone by then.
        """
        ...


def absolute(place: str | os.PathLike[str]) -> str:
    """A local path as every process of a machine understands it, wherever it runs; a URL as is."""
    text = os.fspath(place)
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


def is_remote(place: str) -> bool:
    """Whether it is the URL of an object store."""
    return "://" in place and not place.startswith("file://")


def shared(place: str) -> str:
    """The place as all processes of a Spark application can name it."""
    if place.startswith("memory://"):
        raise SparkSetupError(
            "snapshots in memory:// cannot be shared by the workers' processes. Use a directory or "
            "an object store."
        )
    return absolute(place)

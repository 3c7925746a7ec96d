"""The files that paths stand for, and what tells each from one that has taken its place."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from stat import S_ISREG

from mainstay.connectors.files.hive_partitions import is_hidden
from mainstay.connectors.files.part_names import is_merged
from mainstay.connectors.files.spark_log import SparkFileLog, has_log
from mainstay.errors import SourceError
from mainstay.snapshot.object_storage import open_storage
from mainstay.spelling import unended

MARKED_BYTES = 4096
"""How much of the beginning and of the end of a file tells whether it has changed."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells a file from another one that has taken its place."""

    size_bytes: int
    modified_ns: int | None
    """When it was last changed; None where an earlier version has not noted it."""

    def fits(self, found: Stamp) -> bool:
        is_known = self.modified_ns is not None
        return self == found if is_known else self.size_bytes == found.size_bytes

    def __str__(self) -> str:
        if self.modified_ns is None:
            return f"{self.size_bytes} bytes"
        seconds, rest = divmod(self.modified_ns, 1_000_000_000)
        return f"{self.size_bytes} bytes, changed at {seconds}.{rest:09}"


def stamp_of(path: str) -> Stamp | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return Stamp(status.st_size, status.st_mtime_ns) if S_ISREG(status.st_mode) else None


def files_of(path: str, directory: str) -> Iterator[tuple[str, bool]]:
    """The files that one of the given paths stands for; those of a Spark log are whole.

    They are named as the path was given: below ``directory`` if it is relative.
    """
    is_pattern = has_magic(path)
    for match in glob(path, root_dir=directory, recursive=True) if is_pattern else [path]:
        place = os.path.join(directory, match)
        if os.path.isfile(place):
            yield match, False
        elif has_log(place):
            log = SparkFileLog(open_storage(place), SourceError)
            yield from ((file.path, True) for file in log.files())
        else:
            yield from ((match + name[len(place) :], False) for name in _files_below(place))


def check_no_merged(paths: Iterable[str]) -> None:
    """A file that stands for others would be read beside them, and every row twice."""
    for path in paths:
        if is_merged(os.path.basename(path)):
            raise SourceError(
                f"file {path!r} was merged of smaller ones by a sink with compact=, and some of "
                "them may have been read before. Watch, or read again and again, a directory that "
                "is written without compact=."
            )


def mark_of(path: str, size_bytes: int) -> str:
    """What tells a file from another of the same name, without reading all of it."""
    try:
        with open(path, "rb") as file:
            checksum = zlib.crc32(file.read(MARKED_BYTES))
            file.seek(max(0, size_bytes - MARKED_BYTES))
            checksum = zlib.crc32(file.read(MARKED_BYTES), checksum)
    except OSError as error:
        raise SourceError(f"file {path!r} cannot be read: {unended(error)}.") from error
    return f"a file of {size_bytes:,} bytes with the checksum {checksum:08x} at its ends"


def _check_is_readable(error: OSError) -> None:
    """A directory may be absent, or go; one that may not be looked at would seem to be empty."""
    if isinstance(error, PermissionError):
        raise SourceError(
            f"the directory {error.filename!r} cannot be listed: {error}. Grant the permission to "
            "read it."
        )


def _files_below(path: str) -> Iterator[str]:
    for directory, inner, names in os.walk(path, onerror=_check_is_readable):
        inner[:] = [name for name in inner if not is_hidden(name)]
        yield from (
            os.path.join(directory, name) for name in names if not name.startswith((".", "_"))
        )

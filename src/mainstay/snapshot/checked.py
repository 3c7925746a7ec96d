"""Small files that are read whole and checked: length and checksum are kept beside the path."""

from __future__ import annotations

import zlib

from mainstay.errors import DamagedFileError
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.snapshot.storage import NotFound, Storage


def reference(path: str, data: bytes) -> FileRef:
    """What is kept of a small file to notice later that it is damaged."""
    return FileRef(path, len(data), f"crc32:{zlib.crc32(data):08x}")


def read_checked(storage: Storage, place: FileRef) -> bytes:
    """The whole file, or an error that says what is wrong with it."""
    try:
        data = storage.read(place.path)
    except NotFound:
        raise DamagedFileError(
            f"{place.path} is missing. Bring it back, or restore an older epoch."
        ) from None
    found = reference(place.path, data)
    if found != place:
        raise DamagedFileError(
            f"{place.path} is damaged: expected {place.size_bytes} bytes with {place.checksum}, "
            f"found {found.size_bytes} with {found.checksum}. Bring the right file back, or "
            "restore an older epoch."
        )
    return data


def read_manifest(storage: Storage, place: FileRef) -> Manifest:
    """A manifest that a slot names, checked against what the slot says of it."""
    return Manifest.from_bytes(read_checked(storage, place), place.path)

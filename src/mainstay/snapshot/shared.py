"""Files that share one stored file: small ones that are written at the same time.

::

    "MSTS" version
    file, file, …      each as it would be alone

A store charges for each file, and a small one takes it as long as a larger one. A reference says
where its file begins, so each is read by itself. The shared file is deleted when no kept epoch
refers to any part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.statewriter import EncodedFile
from mainstay.snapshot.storage import Storage

SHARED_FILE_FORMAT = 1
HEADER = b"MSTS" + SHARED_FILE_FORMAT.to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class NewFile:
    """A state file that is still to be made, and its path where it shares none."""

    path: str
    make: Callable[[], EncodedFile]


@dataclass(frozen=True, slots=True)
class Stored:
    """A state file that is durable."""

    file: FileRef
    rows: int


def store_together(
    storage: Storage, shared: str, files: Sequence[NewFile]
) -> list[Stored | Exception]:
    """Make files and store them as one, at the path ``shared``; one that is alone at its own.

    Returns for each what refers to it, or why it could not be made. Raises when nothing was stored.
    """
    if len(files) == 1:
        return [store_alone(storage, files[0])]
    made = [_made(file) for file in files]
    parts = [each.data for each in made if isinstance(each, EncodedFile)]
    if parts:
        storage.write(shared, b"".join((HEADER, *parts)))
    return _placed(shared, made)


def store_alone(storage: Storage, file: NewFile) -> Stored:
    """Make a file and store it at its own path."""
    made = file.make()
    storage.write(file.path, made.data)
    return Stored(made.ref(file.path), made.rows)


def _made(file: NewFile) -> EncodedFile | Exception:
    try:
        return file.make()
    except Exception as error:  # it is given to the one who asked for the file
        return error


def _placed(shared: str, made: Sequence[EncodedFile | Exception]) -> list[Stored | Exception]:
    placed: list[Stored | Exception] = []
    start = len(HEADER)
    for each in made:
        if isinstance(each, EncodedFile):
            placed.append(Stored(replace(each.ref(shared), start=start), each.rows))
            start += each.size_bytes
        else:
            placed.append(each)
    return placed

"""A worker's storage with copies of its state files on this host.

A file is copied when it is written, and when it is read whole. One that is read in part, because
a subtask needs some key-groups of it, is not. Copies that the last epochs of a subtask do not build
on any more are removed, those that they do are kept before others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from mainstay.snapshot.layout import STATE_PREFIX
from mainstay.snapshot.local_copies import CopySettings, LocalCopies, open_copies
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.metered import MeteredStorage
from mainstay.snapshot.storage import BytesLike, Storage

KEPT_EPOCHS = 3
"""An epoch that was acknowledged may yet come to nothing: then the one before it is restored."""


def with_copies(
    inner: Storage, place: str, settings: CopySettings | None, lineage: str
) -> MeteredStorage:
    """The storage of a worker of this host, with copies where there are to be some."""
    return metered(inner, None if settings is None else open_copies(settings, lineage, place))


def metered(inner: Storage, copies: LocalCopies | None) -> MeteredStorage:
    """A storage that counts what is read, with the copies of this host if it has any."""
    return MeteredStorage(inner) if copies is None else CopiedStorage(inner, copies)


class CopiedStorage(MeteredStorage):
    """Reads state files from this host where it has them, and keeps those that it sees."""

    def __init__(self, inner: Storage, copies: LocalCopies) -> None:
        super().__init__(inner)
        self.copies = copies
        self._named: dict[str, deque[frozenset[str]]] = {}
        self._dead: deque[str] = deque()

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if not path.startswith(STATE_PREFIX):
            return super().read(path, start, length)
        found = self.copies.get(path, start, length)
        if found is not None:
            self.reads.add(path, local=len(found))
            return found
        data = super().read(path, start, length)
        is_whole = start == 0 and (length is None or len(data) < length)
        if is_whole:
            self.copies.put(path, data)
        return data

    def write(self, path: str, data: BytesLike) -> None:
        self.write_file(path, data, None)

    def write_file(self, path: str, data: BytesLike, file: Path | None) -> None:
        """Store what is in a file of this host that never changes."""
        super().write(path, data)
        if path.startswith(STATE_PREFIX):
            self.copies.put(path, data, file)
            self._tidy()

    def delete(self, *paths: str) -> None:
        super().delete(*paths)
        for path in paths:
            self.copies.remove(path)

    def named(self, owner: str, paths: Iterable[str]) -> None:
        """Called on the loop: what follows from it is done with the next write."""
        epochs = self._named.setdefault(owner, deque())
        epochs.append(frozenset(paths))
        if len(epochs) > KEPT_EPOCHS:
            gone = epochs.popleft().difference(*epochs)
            self._dead.extend(path for path in gone if not self._is_named(path))

    def fetches(self, files: Iterable[FileRef]) -> list[Callable[[], None]]:
        """What copies the files that are not on this host yet. Each call takes one."""
        missing = dict.fromkeys(file.path for file in files if not self.copies.held_bytes([file]))
        return [partial(self._fetch, path) for path in missing]

    def _fetch(self, path: str) -> None:
        data = super().read(path)
        self.copies.put(path, data)
        # Who reads the copy counts it again.
        self.reads.add(path, local=-len(data))

    def _is_named(self, path: str) -> bool:
        """Whether some owner still builds on it: several may share a file."""
        return any(path in epoch for epochs in self._named.values() for epoch in epochs)

    def _tidy(self) -> None:
        while self._dead:
            self.copies.remove(self._dead.popleft())
        # A list, because the loop may add an owner meanwhile.
        self.copies.use(path for epochs in list(self._named.values()) for path in epochs[-1])


def write_file(storage: Storage, path: str, data: BytesLike, file: Path | None) -> None:
    """Store a file that may also be kept on this host, as a link to where it is."""
    if isinstance(storage, CopiedStorage):
        storage.write_file(path, data, file)
    else:
        storage.write(path, data)


def local_link(storage: Storage, ref: FileRef) -> Path | None:
    """A file of this host with a file of the storage in it, for the caller to move away."""
    if not isinstance(storage, CopiedStorage):
        return None
    found = storage.copies.link(ref)
    if found is not None:
        storage.reads.add(ref.path, local=ref.size_bytes)
    return found

"""Copies of state files on the local disk, so that a worker that comes back need not fetch them.

::

    <directory>/cache/lock                          held by the process that makes room
    <directory>/cache/<job>/state/<uid>/a0003/…     a file as it is in the storage
    <directory>/cache/<job>/state/<uid>/a0003/…~    its size and checksum; without it, no copy
    <directory>/cache/<job>/~…                      one that is being written

Names of state files are never used twice and their contents never change, so no copy is ever stale:
it is whole, which size and checksum say, or it is none. Nobody depends on copies. They are made
after a file is durable in the storage, all workers of a host share them, the ones that were not
used for the longest time go first, and a disk that is full costs the copies and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import logging
import math
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mainstay.errors import MainstayError
from mainstay.snapshot.layout import safe_name
from mainstay.snapshot.local_root import default_root, is_private, make_private
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.storage import BytesLike

try:
    import fcntl
except ImportError:  # without it, two processes may make room at once, and make too much
    fcntl = None  # type: ignore[assignment, unused-ignore]

FOLDER = "cache"
MOST_BYTES = 10 << 30
_NOTE = "~"
"""No name in the storage has it."""
_USED_EVERY_S = 60.0
_ABANDONED_S = 3600.0
_UNUSED_S = 7 * 24 * 3600.0
"""What nobody has used for so long is of a job that will not come back, or that does without."""
_FULL = (errno.ENOSPC, errno.EDQUOT)

_log = logging.getLogger("mainstay")
_drafts = itertools.count(1)


@dataclass(frozen=True, slots=True)
class CopySettings:
    """Where copies lie on each host, below the user's own folder by default, and how many bytes."""

    directory: str | None = None
    most_bytes: int = MOST_BYTES


def open_copies(settings: CopySettings, lineage: str, place: str) -> LocalCopies | None:
    """The copies of a job on this host; None, with a warning, where there can be none.

    Directories that are copied have a lineage in common, so their place is part of the name.
    """
    digest = hashlib.sha256(place.encode()).hexdigest()[:16]
    try:
        root = default_root() if settings.directory is None else Path(settings.directory)
        root.mkdir(parents=True, exist_ok=True)
        cache = root / FOLDER
        make_private(cache)
        if not is_private(cache):
            raise PermissionError(f"{cache} is no directory of this user alone. Remove it")
        return LocalCopies(cache, f"{safe_name(lineage)}-{digest}", settings.most_bytes)
    except (OSError, MainstayError) as error:
        _log.warning("state files are not kept on this host: %s", error)
        return None


class LocalCopies:
    """The copies of one job. Safe to call from several threads and processes; never raises."""

    def __init__(self, cache: Path, job: str, most_bytes: int) -> None:
        self._cache = cache
        self._folder = cache / job
        self._most_bytes = most_bytes
        self._added_bytes = (
            most_bytes  # so that the first copy makes room, if others have left none
        )
        self._checked: set[str] = set()
        self._used_at = -math.inf
        self.is_off = False

    # ------------------------------------------------------------ copies

    def put(self, path: str, data: BytesLike, file: Path | None = None) -> None:
        """Keep a copy, as a link where the same bytes are in a file that never changes."""
        if self.is_off:
            return
        try:
            self._put(path, data, file)
            self._added_bytes += len(data)
            if self._added_bytes > self._most_bytes // 16:
                self._added_bytes = 0
                self.make_room()
        except FileNotFoundError:
            return  # who makes room has removed a folder that was empty
        except OSError as error:
            self._give_up(error)

    def _put(self, path: str, data: BytesLike, file: Path | None) -> None:
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._draft()
        try:
            if file is None or not _is_linked(file, draft):
                draft.write_bytes(data)
            draft.replace(target)
            draft.write_text(_described(data))
            draft.replace(_note_of(target))
        finally:
            # Also because a link to the same file is not moved.
            draft.unlink(missing_ok=True)

    def _draft(self) -> Path:
        return self._folder / f"{_NOTE}{os.getpid()}-{next(_drafts)}"

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes | None:
        """What a read of the storage would give; None where there is no copy."""
        target = self._folder / path
        try:
            if path in self._checked:
                with open(target, "rb") as file:
                    file.seek(start)
                    return file.read(-1 if length is None else length)
            data = self._whole(path)
        except OSError:
            self._checked.discard(path)
            return None
        if data is None or (start == 0 and length is None):
            return data
        return data[start:] if length is None else data[start : start + length]

    def link(self, ref: FileRef) -> Path | None:
        """A link to a copy, for the caller to move away; None where there is none."""
        draft = self._draft()
        try:
            if self._whole(ref.path, ref) is None:
                return None
            os.link(self._folder / ref.path, draft)
        except OSError:
            return None
        return draft

    def _whole(self, path: str, ref: FileRef | None = None) -> bytes | None:
        """A copy that was read and is right. One that is not is removed."""
        target = self._folder / path
        note = _note_of(target)
        expected = note.read_text() if ref is None else f"{ref.size_bytes} {ref.checksum}"
        data = target.read_bytes()
        if expected != _described(data):
            _log.info("the copy of %s on this host is damaged, and is fetched again", path)
            self.remove(path)
            return None
        self._checked.add(path)
        os.utime(note)
        return data

    def remove(self, path: str) -> None:
        self._checked.discard(path)
        with contextlib.suppress(OSError):
            _remove(self._folder / path)

    def held_bytes(self, files: Iterable[FileRef]) -> int:
        """How many bytes of some files there are copies of; no copy is read for that."""
        return sum(file.size_bytes for file in files if self._is_held(file))

    def _is_held(self, file: FileRef) -> bool:
        target = self._folder / file.path
        try:
            size = target.stat().st_size
            is_whole = size > file.start if file.is_shared else size == file.size_bytes
            return is_whole and _note_of(target).exists()
        except OSError:
            return False

    def use(self, paths: Iterable[str]) -> None:
        """These files are still needed: others go before them. Noted now and then."""
        now = time.monotonic()
        if now - self._used_at < _USED_EVERY_S:
            return
        self._used_at = now
        for path in paths:
            with contextlib.suppress(OSError):
                os.utime(_note_of(self._folder / path))

    # ------------------------------------------------------------ room

    def make_room(self) -> None:
        """Remove what was not used for the longest time, until all jobs are within the bound.

        Whatever the bound, copies take no more than what they leave free on the disk.
        """
        with self._alone() as is_alone:
            if not is_alone:
                return  # somebody else is about it
            found = sorted(self._entries())
            total = sum(size for _, size, _ in found)
            free = shutil.disk_usage(self._cache).free
            most = min(self._most_bytes, (free + total) // 2)
            for used, size, target in found:
                if total <= most and used > time.time() - _UNUSED_S:
                    break
                _remove(target)
                total -= size

    def empty(self) -> None:
        """Remove all copies of all jobs."""
        with self._alone(), contextlib.suppress(OSError):
            for _, _, target in list(self._entries()):
                _remove(target)

    def _give_up(self, error: OSError) -> None:
        self.is_off = True
        if error.errno in _FULL:
            self.empty()
        _log.warning("no more state files are kept on this host: %s", error)

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """When each copy was used, its size, and where it is. What was given up is removed."""
        for folder, _, names in os.walk(self._cache):
            present = set(names)
            for name in names:
                file = Path(folder, name)
                if name.endswith(_NOTE) and not name.startswith(_NOTE):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if f"{name}{_NOTE}" in present:
                        used = _note_of(file).stat().st_mtime
                        yield used, file.stat().st_size, file
                    elif file.parent != self._cache:
                        _remove_abandoned(file)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        with open(self._cache / "lock", "wb") as lock:
            if fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield False
                    return
            yield True


def _described(data: BytesLike) -> str:
    """What the note of a copy says; a manifest says the same of a file that is checked whole."""
    return f"{len(data)} crc32:{zlib.crc32(data):08x}"


def _note_of(target: Path) -> Path:
    return target.with_name(f"{target.name}{_NOTE}")


def _is_linked(file: Path, draft: Path) -> bool:
    """Whether a link could be made: on another device it cannot, and the file may be gone."""
    try:
        os.link(file, draft)
    except OSError:
        return False
    return True


def _remove(target: Path) -> None:
    # The note first: without it the rest is no copy.
    _note_of(target).unlink(missing_ok=True)
    target.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        target.parent.rmdir()


def _remove_abandoned(file: Path) -> None:
    if time.time() - file.stat().st_mtime > _ABANDONED_S:
        file.unlink(missing_ok=True)

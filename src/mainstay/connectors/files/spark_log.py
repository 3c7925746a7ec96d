"""Spark's file log: which files of a directory count, in the form that Spark itself keeps.

A directory that a Spark stream writes to has a folder ``_spark_metadata``, and where it is there
Spark reads the files listed in it and no others::

    _spark_metadata/0 … 8, 9.compact, 10 … 18, 19.compact, 20 …

A batch is the line ``v1`` and a line of JSON for each file. Every tenth batch is a compaction: it
lists the files of all batches so far, and only the batches after the last compaction are read
beside it. Batches are numbered without gaps, and each is created only if it is absent, so that
two writers cannot both take a number.

Spark passes over fields that it does not know. Here an entry carries the epoch it came with.

A compaction is also where files are replaced: it lists a merged file in the place of those that it
stands for. Spark reads nothing that is older than the last compaction, so for readers of the log
a replacement is one act. An entry of a merged file says which writers' parts it *covers*, and up to
which number, so that parts which are no longer listed are still known to be committed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from mainstay.connectors.files.part_names import numbered_of
from mainstay.errors import MainstayError
from mainstay.snapshot.storage import NotFound, Storage

FOLDER = "_spark_metadata"
COMPACT_EVERY = 10
RETAINED_BATCHES = 100
"""Batches that are kept after a compaction has replaced them, for readers under way."""

_VERSION = b"v1"
_BATCH = re.compile(r"(\d+)(\.compact)?")
_BLOCK_BYTES = 32 << 20  # what Spark notes of a file on a local disk
_READ_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An entry of the log: a file by its absolute local path, as it was when it was written."""

    path: str
    size_bytes: int
    modified_ms: int
    epoch: int | None = None
    covers: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Of a merged file: the writers of its parts, each with the highest number among them."""

    def to_line(self) -> bytes:
        entry: dict[str, Any] = {
            "path": _uri(self.path),
            "size": self.size_bytes,
            "isDir": False,
            "modificationTime": self.modified_ms,
            "blockReplication": 1,
            "blockSize": _BLOCK_BYTES,
            "action": "add",
            "epoch": self.epoch,
        }
        if self.covers:
            entry["covers"] = dict(self.covers)
        return json.dumps(entry, separators=(",", ":")).encode()

    @property
    def mark(self) -> bytes:
        """The part of its line by which it is found in a log."""
        return b'"path":' + json.dumps(_uri(self.path)).encode() + b","


def local_path(uri: str) -> str | None:
    """The path that a ``file:`` URI stands for; None for a URI of another kind."""
    parts = urlsplit(uri)
    is_local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return unquote(parts.path) if is_local else None


def has_log(directory: str) -> bool:
    """Whether Spark would go by a log in this directory."""
    return os.path.isdir(os.path.join(directory, FOLDER))


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a log says: the number of its last batch (−1: it has none) and every entry's line."""

    latest: int
    lines: list[bytes]

    @property
    def next_is_compaction(self) -> bool:
        return (self.latest + 2) % COMPACT_EVERY == 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """A merged file, and the paths of the listed files that it stands for."""

    old: tuple[str, ...]
    new: ListedFile


class SparkFileLog:
    """The log of one directory. ``error`` is raised where the log is not as it must be."""

    def __init__(self, storage: Storage, error: type[MainstayError]) -> None:
        self._storage = storage
        self._error = error

    def files(self) -> list[ListedFile]:
        """The files that count, in the order in which they came."""
        return self._files(self._read())

    def _files(self, contents: _Contents) -> list[ListedFile]:
        entries = [json.loads(line) for line in contents.lines]
        return [self._file(entry) for entry in entries if entry["action"] == "add"]

    def append(self, files: Sequence[ListedFile]) -> None:
        """List the files, in one batch and once: those that are listed already are left out, and
        those that a listed file stands for."""
        while True:
            contents = self._read()
            listed = b"\n".join(contents.lines)
            covered = _covered(contents.lines)
            new = [
                file
                for file in files
                if file.mark not in listed and not _is_covered(file.path, covered)
            ]
            if not new:
                return
            for file in new:
                self._check_is_there(file)
            # A writer that finds the number taken looks again: the winner may have listed the same.
            if self._create(contents, new):
                return

    def files_before_compaction(self) -> list[ListedFile] | None:
        """The files that count, if the next batch is one that can replace some of them."""
        contents = self._read()
        return self._files(contents) if contents.next_is_compaction else None

    def replace(self, replacements: Sequence[Replacement], may_replace: Callable[[], bool]) -> bool:
        """List files in the place of others, in one act; False where that cannot be just now.

        ``may_replace`` is asked between reading and writing: who answers no from some moment on,
        and then has the log advance, knows that nothing is replaced any more.
        """
        contents = self._read()
        if not contents.next_is_compaction or not may_replace():
            return False
        lines = {_path_in(line): line for line in contents.lines}
        for replacement in replacements:
            if not lines.keys() >= set(replacement.old):
                return False
            # The merged file takes the place of the first, and the others' go.
            lines[replacement.old[0]] = replacement.new.to_line()
            for path in replacement.old[1:]:
                del lines[path]
        return self._create(_Contents(contents.latest, list(lines.values())), ())

    def advance(self) -> None:
        """Write a batch that lists nothing new: who has read the log before can add none."""
        while not self._create(self._read(), ()):
            pass

    def _create(self, contents: _Contents, new: Sequence[ListedFile]) -> bool:
        number, is_compaction = contents.latest + 1, contents.next_is_compaction
        lines = [file.to_line() for file in new]
        if is_compaction:
            lines = contents.lines + lines
        path = f"{FOLDER}/{number}.compact" if is_compaction else f"{FOLDER}/{number}"
        created = self._storage.create(path, b"\n".join([_VERSION, *lines]))
        if created and is_compaction:
            self._forget_before(number - RETAINED_BATCHES)
        return created

    def _forget_before(self, number: int) -> None:
        """Delete batches that a compaction not after ``number`` has replaced."""
        keep_from = (number + 1) // COMPACT_EVERY * COMPACT_EVERY - 1
        self._storage.delete(*(path for batch, path in self._batches() if batch < keep_from))

    def _check_is_there(self, file: ListedFile) -> None:
        found = os.path.getsize(file.path) if os.path.isfile(file.path) else None
        if found != file.size_bytes:
            state = "is not there" if found is None else f"has {found} bytes"
            raise self._error(
                f"the file {file.path!r} of epoch {file.epoch}, written with {file.size_bytes} "
                f"bytes, {state}, so it cannot be committed. Driver and workers must see the same "
                "directory, and nobody else may delete files in it."
            )

    def _read(self) -> _Contents:
        for _ in range(_READ_ATTEMPTS - 1):
            try:
                return self._read_once()
            except NotFound:
                continue  # a compaction went by and what it replaced was deleted: list again
        return self._read_once()

    def _read_once(self) -> _Contents:
        batches = sorted(self._batches())
        compactions = [at for at, (_, path) in enumerate(batches) if path.endswith(".compact")]
        needed = batches[compactions[-1] :] if compactions else batches
        first = needed[0][0] if compactions else 0
        if [batch for batch, _ in needed] != list(range(first, first + len(needed))):
            raise self._damaged(f"its batches are {[batch for batch, _ in needed]}, with a gap")
        lines = [line for _, path in needed for line in self._lines(path)]
        return _Contents(first + len(needed) - 1, lines)

    def _batches(self) -> Iterator[tuple[int, str]]:
        for path in self._storage.list(FOLDER):
            if name := _BATCH.fullmatch(path.removeprefix(f"{FOLDER}/")):
                yield int(name[1]), path

    def _lines(self, path: str) -> list[bytes]:
        version, *lines = self._storage.read(path).split(b"\n")
        if version != _VERSION:
            raise self._damaged(f"{path!r} begins with {version[:20]!r} instead of {_VERSION!r}")
        return [line for line in lines if line]

    def _file(self, entry: dict[str, Any]) -> ListedFile:
        path = local_path(entry["path"])
        if path is None:
            raise self._error(
                f"the log in {self._storage!r} lists {entry['path']!r}, which is not on a local "
                "disk. Read this directory with Spark."
            )
        return ListedFile(
            path,
            entry["size"],
            entry["modificationTime"],
            entry.get("epoch"),
            entry.get("covers", {}),
        )

    def _damaged(self, problem: str) -> MainstayError:
        return self._error(
            f"the log {FOLDER!r} in {self._storage!r} cannot be used: {problem}. Put back the "
            "files of the log that are missing or altered."
        )


def _path_in(line: bytes) -> str:
    uri = json.loads(line)["path"]
    return local_path(uri) or uri


def joined(covers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """What several files cover together."""
    all_of_them: dict[str, int] = {}
    for each in covers:
        for writer, number in each.items():
            all_of_them[writer] = max(number, all_of_them.get(writer, 0))
    return all_of_them


def _covered(lines: Sequence[bytes]) -> dict[str, int]:
    return joined(json.loads(line).get("covers", {}) for line in lines if b'"covers":' in line)


def _is_covered(path: str, covered: Mapping[str, int]) -> bool:
    """Whether a part is in a merged file. Its writer's parts are committed in their order."""
    numbered = numbered_of(os.path.basename(path))
    return numbered is not None and covered.get(numbered[0], 0) >= numbered[1]


def _uri(path: str) -> str:
    return f"file://{quote(path)}"

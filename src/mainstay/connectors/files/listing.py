"""The listing of a file sink: which files of its directory count, and up to which epoch.

It is a log of numbered batches, ``_mainstay/files/0000000000`` and so on, each created only if it
is absent, so that of several writers one takes a number. A batch is a line about itself and a line
of JSON for each file. One that is *whole* lists everything, and nothing before it is read: every
tenth is, and each in which files are replaced by others, because a replacement has to be one act.

The first line also says up to which epoch each *run* has committed. A run is an attempt of a job,
under a word of its own: numbers of epochs mean something within one history only, and a job that
starts afresh in the same directory counts from one again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mainstay.errors import MainstayError
from mainstay.snapshot.storage import NotFound, Storage

FOLDER = "_mainstay/files"
VERSION = 1
WHOLE_EVERY = 10
RETAINED_BATCHES = 100
"""Batches that are kept after a whole one has replaced them, for readers under way."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A committed file, by its path below the directory."""

    path: str
    size_bytes: int
    rows: int
    epoch: int
    is_merged: bool = False
    """Whether it stands for smaller files that were listed before."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a listing says. ``latest`` is the number of its last batch; −1: it has none."""

    latest: int = -1
    fence: str = ""
    """A word of the attempt that alone may replace files; empty until one has said so."""
    epochs: Mapping[str, int] = field(default_factory=dict)
    files: tuple[ListedFile, ...] = ()

    def has_committed(self, run: str, epoch: int) -> bool:
        return self.epochs.get(run, 0) >= epoch


def has_listing(directory: str) -> bool:
    """Whether a file sink has committed to this directory."""
    return os.path.isdir(os.path.join(directory, FOLDER))


class FileListing:
    """The listing of one directory. ``error`` is raised where it is not as it must be."""

    def __init__(self, storage: Storage, error: type[MainstayError]) -> None:
        self._storage = storage
        self._error = error

    def read(self) -> Contents:
        latest = self._latest()
        while True:
            try:
                return self._read_up_to(latest)
            except _MissingBatch as missing:
                before, latest = latest, self._latest()
                if latest == before:
                    raise self._damaged(f"its batch {missing.number} is missing") from missing
                if latest < before:
                    raise  # all of it has gone, as when a disk is not mounted
                # A whole batch went by, and what it replaced was deleted.

    def change(self, decide: Callable[[Contents], Contents | None]) -> Contents:
        """Have ``decide`` make the next contents of the present ones; None leaves them.

        It is asked again when somebody else was quicker, and must then look at everything again.
        """
        while True:
            before = self.read()
            after = decide(before)
            if after is None:
                return before
            if self._create(before, after):
                return replace(after, latest=before.latest + 1)

    # ------------------------------------------------------------ batches

    def _create(self, before: Contents, after: Contents) -> bool:
        number, listed = before.latest + 1, len(before.files)
        is_whole = number % WHOLE_EVERY == 0 or after.files[:listed] != before.files
        files = after.files if is_whole else after.files[listed:]
        head: dict[str, Any] = {"version": VERSION, "is_whole": is_whole, "fence": after.fence}
        head["epochs"] = dict(after.epochs)
        lines = [json.dumps(each) for each in (head, *map(asdict, files))]
        created = self._storage.create(_path(number), "\n".join(lines).encode())
        if created and number % WHOLE_EVERY == 0:
            self._forget_before(number - RETAINED_BATCHES)
        return created

    def _forget_before(self, number: int) -> None:
        self._storage.delete(*(_path(batch) for batch in self._numbers() if batch < number))

    def _read_up_to(self, latest: int) -> Contents:
        if latest < 0:
            return Contents()
        head, files = self._batch(latest)
        fence, epochs, at = head["fence"], head["epochs"], latest
        while not head["is_whole"]:
            at -= 1
            head, earlier = self._batch(at)
            files = earlier + files
        return Contents(latest, fence, epochs, tuple(files))

    def _batch(self, number: int) -> tuple[dict[str, Any], list[ListedFile]]:
        try:
            head, *files = map(json.loads, self._storage.read(_path(number)).split(b"\n"))
        except NotFound as error:
            raise _MissingBatch(number, str(error)) from error
        if head["version"] != VERSION:
            raise self._damaged(
                f"its batch {number} has version {head['version']}, and this Mainstay knows "
                f"version {VERSION}"
            )
        return head, [ListedFile(**file) for file in files]

    def _latest(self) -> int:
        return max(self._numbers(), default=-1)

    def _numbers(self) -> list[int]:
        names = (path.removeprefix(f"{FOLDER}/") for path in self._storage.list(FOLDER))
        return sorted(int(name) for name in names if name.isdigit())

    def _damaged(self, problem: str) -> MainstayError:
        return self._error(
            f"the listing {FOLDER!r} in {self._storage!r} cannot be used: {problem}. Put back the "
            "files that are missing or altered, or use the Mainstay that wrote them."
        )


class _MissingBatch(NotFound):
    """A batch that was seen, or that a later one needs, is not there."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def _path(number: int) -> str:
    return f"{FOLDER}/{number:010}"

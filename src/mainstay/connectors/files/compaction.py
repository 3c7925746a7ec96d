"""Small files of a file sink merged into larger ones, in one act for readers of the listing.

A merged file is written hidden; then one batch of the listing puts it in the place of the files
that it stands for; then those are moved away and it is shown. A reader that has the old listing
still finds the old files, in ``_mainstay/replaced``, for some time. One that is slower than that
finds that they are gone and no longer listed, and goes by the new listing.

Plain renames cannot do this in one act. The old files go before the new one comes, so a program
that goes by the names in the directory sees no row twice, but for a moment it may not see the rows
that are being moved.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from mainstay.connectors.files.listing import Contents, FileListing, ListedFile
from mainstay.connectors.files.open_part import flush_folder
from mainstay.connectors.files.output_directory import remove
from mainstay.connectors.files.part_formats import PartFormat
from mainstay.connectors.files.part_merging import merged
from mainstay.connectors.files.part_names import attempt_of, merged_name

PARTS = "_mainstay/parts"
"""Where parts are before they are shown."""
REPLACED = "_mainstay/replaced"
"""Where files are that merged ones stand for, while somebody may still read them."""
REPLACED_LIVE_S = 60.0
"""So long they are kept there. It is short, for they take the room of all that is merged meanwhile;
a reader that needs longer for the small files that there are looks again."""
MIN_FILES = 8
"""So many small files of a directory are worth merging."""


def place_of(directory: str, path: str) -> str | None:
    """Where a listed file is just now: not yet shown, shown, or no more; None if it is gone.

    A file moves through these places in this order. A reader that looks in the same order
    finds it even if it moves meanwhile.
    """
    base = os.path.basename(path)
    for place in (os.path.join(PARTS, base), path, os.path.join(REPLACED, base)):
        if os.path.isfile(os.path.join(directory, place)):
            return os.path.join(directory, place)
    return None


def show(directory: str, paths: Iterable[str]) -> None:
    """Give listed files their places, those that are still hidden."""
    folders = set()
    for path in paths:
        hidden = os.path.join(directory, PARTS, os.path.basename(path))
        if os.path.exists(hidden):
            shown = os.path.join(directory, path)
            os.makedirs(os.path.dirname(shown), exist_ok=True)
            os.rename(hidden, shown)
            folders.add(os.path.dirname(shown))
    for folder in folders:
        flush_folder(folder)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Merges files smaller than half of ``size_bytes`` into files of about that size."""

    size_bytes: int

    def run(self, directory: str, format: PartFormat, listing: FileListing, fence: str) -> None:
        """Merge what there is to merge. What dies in the middle of it is finished by a recovery."""
        groups = list(small_groups(listing.read().files, format.extension, self.size_bytes))
        if groups:
            _remove_outlived(os.path.join(directory, REPLACED))
        for group in groups:
            while len(group) > 1:
                new, files = _merge(directory, format, group)
                group = group[len(files) :]
                if len(files) > 1 and _replace(listing, files, new, fence):
                    _hide(directory, files)
                    show(directory, [new.path])
                else:
                    remove(os.path.join(directory, PARTS, os.path.basename(new.path)))


class Sized(Protocol):
    """A listed file, of whichever listing."""

    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...


File = TypeVar("File", bound=Sized)


def small_groups(files: Iterable[File], extension: str, size_bytes: int) -> Iterator[list[File]]:
    """Files smaller than half of a size, in groups of one folder that are worth merging."""
    folders: dict[str, list[File]] = {}
    for file in files:
        if file.size_bytes < size_bytes // 2 and file.path.endswith(extension):
            folders.setdefault(os.path.dirname(file.path), []).append(file)
    for small in folders.values():
        yield from _runs(small, size_bytes)


def _runs(small: Iterable[File], size_bytes: int) -> Iterator[list[File]]:
    """The small files of a folder in runs that are large enough, or many enough."""
    run: list[File] = []
    for file in small:
        run.append(file)
        if sum(each.size_bytes for each in run) >= size_bytes and len(run) > 1:
            yield run
            run = []
    if len(run) >= MIN_FILES:
        yield run


def _merge(
    directory: str, format: PartFormat, files: Sequence[ListedFile]
) -> tuple[ListedFile, list[ListedFile]]:
    """One hidden file of the given ones, as far as they have the same columns, and those."""
    places = [place_of(directory, file.path) or file.path for file in files]
    data, count = merged(places, format)
    taken = list(files[:count])
    attempt = max(attempt_of(os.path.basename(file.path)) or 0 for file in taken)
    base = merged_name(attempt, count) + format.extension
    write_durably(os.path.join(directory, PARTS, base), data)
    path = os.path.join(os.path.dirname(taken[0].path), base)
    rows, epoch = sum(file.rows for file in taken), max(file.epoch for file in taken)
    return ListedFile(path, len(data), rows, epoch, is_merged=True), taken


def _replace(listing: FileListing, old: Sequence[ListedFile], new: ListedFile, fence: str) -> bool:
    """Put one file in the place of others in one act, unless somebody else has the say by now."""

    def decide(before: Contents) -> Contents | None:
        # A listing that was begun in this attempt has no fence yet.
        if before.fence not in ("", fence) or not set(old) <= set(before.files):
            return None
        at = before.files.index(old[0])
        files = [file for file in before.files if file not in old]
        return replace(before, files=(*files[:at], new, *files[at:]))

    return new in listing.change(decide).files


def _hide(directory: str, files: Iterable[ListedFile]) -> None:
    os.makedirs(os.path.join(directory, REPLACED), exist_ok=True)
    for file in files:
        shown = os.path.join(directory, file.path)
        if os.path.exists(shown):
            os.utime(shown)  # from now on it is kept for readers, however old it is
            os.rename(shown, os.path.join(directory, REPLACED, os.path.basename(file.path)))


def _remove_outlived(folder: str) -> None:
    """Remove what was replaced so long ago that no reader should be at it.

    Clocks of machines may differ: where a file goes too early, its readers look again.
    """
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):  # an older driver that lives on removes too
            if time.time() - os.path.getmtime(path) >= REPLACED_LIVE_S:
                os.remove(path)


def write_durably(path: str, data: bytes) -> None:
    """Write a file that is on disk, with its name, when this returns."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    flush_folder(os.path.dirname(path))

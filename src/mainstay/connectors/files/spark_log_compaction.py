"""Small files of a directory with Spark's log, merged into larger ones.

Merged files are written first, with names that the log does not list. Then one compaction of the
log puts them in the place of the files that they stand for (``spark_log``): a reader of the
log sees each row once, before and after. The files that were replaced stay where they are for an
hour, because a reader may have an older listing; a note in ``_mainstay/replaced`` names them.

Only the driver of the latest attempt may replace files. It leaves a word of its own in
``_mainstay/fence`` when it begins, and has the log advance, before it removes what nobody listed.
An earlier driver that lives on finds the word changed, or the number of its batch taken.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mainstay.connectors.bases.json_handles import read_handle, write_handle
from mainstay.connectors.files.compaction import small_groups, write_durably
from mainstay.connectors.files.open_part import Layout, flush_folder
from mainstay.connectors.files.output_directory import remove
from mainstay.connectors.files.part_formats import PartFormat
from mainstay.connectors.files.part_merging import merged
from mainstay.connectors.files.part_names import attempt_of, merged_name, numbered_of
from mainstay.connectors.files.spark_log import ListedFile, Replacement, SparkFileLog, joined
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import NotFound

FENCE = "_mainstay/fence"
REPLACED = "_mainstay/replaced"
"""Where notes are of the files that merged ones stand for, while they are kept."""
REPLACED_LIVE_S = 3600.0
"""So long they are kept. A DataFrame has the listing of the moment it was made, and may be read
much later."""
NOTE_VERSION = 1


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """Merges files smaller than half of ``size_bytes`` into files of about that size."""

    size_bytes: int

    def run(self, directory: str, format: PartFormat, log: SparkFileLog, fence: str) -> None:
        """Merge what there is to merge, if the log can replace files just now."""
        files = log.files_before_compaction()
        groups = small_groups(files or (), format.extension, self.size_bytes)
        replacements = [each for group in groups for each in _merge_all(directory, format, group)]
        if not replacements:
            return
        _note(directory, replacements)
        # A log that was begun in this attempt has no fence yet.
        if not log.replace(replacements, lambda: fence_of(directory) in (None, fence)):
            for replacement in replacements:
                remove(replacement.new.path)


def _merge_all(
    directory: str, format: PartFormat, group: Sequence[ListedFile]
) -> Iterator[Replacement]:
    """The files of a group in as many as they have to be, by their columns."""
    while len(group) > 1:
        data, count = merged([file.path for file in group], format)
        if count > 1:
            yield _written(directory, format, group[:count], data)
        group = group[count:]


def _written(
    directory: str, format: PartFormat, files: Sequence[ListedFile], data: bytes
) -> Replacement:
    attempt = max(attempt_of(os.path.basename(file.path)) or 0 for file in files)
    folder = os.path.relpath(os.path.dirname(files[0].path), directory)
    name = os.path.join(folder, merged_name(attempt, len(files)) + format.extension)
    layout = Layout(directory)
    hidden, shown = layout.hidden(name), os.path.normpath(os.path.join(directory, name))
    write_durably(hidden, data)
    os.rename(hidden, shown)
    flush_folder(os.path.dirname(shown))
    modified_ms = os.stat(shown).st_mtime_ns // 1_000_000
    epoch = max((file.epoch for file in files if file.epoch is not None), default=None)
    new = ListedFile(shown, len(data), modified_ms, epoch, joined(map(_covers, files)))
    return Replacement(tuple(file.path for file in files), new)


def _covers(file: ListedFile) -> dict[str, int]:
    numbered = numbered_of(os.path.basename(file.path))
    return dict(file.covers) if numbered is None else dict([numbered])


# ---------------------------------------------------------------- who may replace


def fence_of(directory: str) -> str | None:
    """The word of who alone may replace files; None where nobody has said so."""
    try:
        return open_storage(directory).read(FENCE).decode()
    except NotFound:
        return None


def raise_fence(directory: str, word: str, log: SparkFileLog) -> None:
    """From here on nobody else can replace files."""
    open_storage(directory).write(FENCE, word.encode())
    log.advance()


# ---------------------------------------------------------------- what was replaced


def _note(directory: str, replacements: Sequence[Replacement]) -> None:
    """Say what will be replaced. Where it is not after all, it is still listed, and so it stays."""
    paths = [os.path.relpath(path, directory) for each in replacements for path in each.old]
    note = write_handle(NOTE_VERSION, {"at": time.time(), "paths": paths})
    name = os.path.basename(replacements[0].new.path)
    open_storage(directory).write(f"{REPLACED}/{name}.json", note)


def replaced_files(directory: str) -> set[str]:
    """The paths of the files that are kept for readers under way."""
    return {os.path.join(directory, path) for _, _, paths in _notes(directory) for path in paths}


def remove_outlived(directory: str, log: SparkFileLog) -> None:
    """Remove what was replaced so long ago that no reader should be at it."""
    due = [note for note in _notes(directory) if time.time() - note[1] >= REPLACED_LIVE_S]
    listed = {file.path for file in log.files()} if due else set()
    for name, _, paths in due:
        for path in paths:
            if (place := os.path.join(directory, path)) not in listed:
                remove(place)
        remove(name)


def _notes(directory: str) -> Iterator[tuple[str, float, list[str]]]:
    folder = os.path.join(directory, REPLACED)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith(".json"):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                note = read_handle(file.read(), NOTE_VERSION, "replaced files")
            yield path, note["at"], note["paths"]

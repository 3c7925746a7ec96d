"""The logs of a checkpoint: which batch was committed last, and how far its sources had come.

::

    metadata        the id of the query
    offsets/<n>     a line v1, one of JSON about the batch, and one for each source
    commits/<n>     a line v1 or v2, and one of JSON; written when batch n is done
    sources/<k>/    what a source keeps for itself: the file source, which files it has listed

What counts is the last batch with a commit. One that was begun after it is begun anew by the
job that goes on from here, so its offsets do not count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from mainstay.errors import RestoreError

OFFSETS, COMMITS, SOURCES = "offsets", "commits", "sources"
FORMAT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"
"""Spark does not find the state of a format that its session is not set to."""
_NO_OFFSET = "-"
_COMPACT = ".compact"


class TextFiles(Protocol):
    """The files of a checkpoint."""

    @property
    def location(self) -> str: ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none where it is absent."""

    def text(self, name: str) -> str:
        """What a file holds."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """The last batch that a query has committed."""

    query_id: str
    number: int
    offsets: tuple[Any, ...]
    """How far each source had come, as its JSON; None for one that had read nothing."""
    fired_ms: int
    """The watermark of the batch: timers up to it have fired."""
    watermark_ms: int
    """The watermark that the next batch would have had. Both are 0 where there is none."""
    begun: int | None
    """A later batch that was begun, and not committed."""
    settings: dict[str, str]
    """What the session was set to that wrote the state, and must be for one that reads it."""


class CheckpointLogs:
    """The logs of one checkpoint."""

    def __init__(self, files: TextFiles) -> None:
        self._files = files

    def last_commit(self) -> int | None:
        """The number of the last committed batch."""
        return max(self._numbers(COMMITS), default=None)

    def committed(self) -> CommittedBatch:
        """The last committed batch; a ``RestoreError`` where there is none."""
        place = self._files.location
        if "metadata" not in self._files.names(""):
            raise RestoreError(
                f"there is no checkpoint at {place!r}: it has no file 'metadata'. Name the folder "
                "that the query had as its checkpointLocation."
            )
        number = self.last_commit()
        if number is None:
            raise RestoreError(
                f"the checkpoint {place!r} has no committed batch, so there is no state to take. "
                "Start the job afresh, without it."
            )
        head, *lines = self._lines(f"{OFFSETS}/{number}", ("v1",))
        version, commit = self._versioned(f"{COMMITS}/{number}", ("v1", "v2"))
        about = self._json(f"{OFFSETS}/{number}", head)
        done = self._json(f"{COMMITS}/{number}", commit[0] if commit else "{}")
        fired = int(about.get("batchWatermarkMs", 0))
        later = [each for each in self._numbers(OFFSETS) if each > number]
        return CommittedBatch(
            query_id=str(self._json("metadata", self._files.text("metadata")).get("id")),
            number=number,
            offsets=tuple(self._offset(f"{OFFSETS}/{number}", line) for line in lines),
            fired_ms=fired,
            watermark_ms=max(fired, int(done.get("nextBatchWatermarkMs", 0))),
            begun=max(later, default=None),
            settings={**about.get("conf", {}), FORMAT_VERSION: version.removeprefix("v")},
        )

    def check_stood_still(self, batch: CommittedBatch) -> None:
        """Refuse a checkpoint that has gone on since."""
        if self.last_commit() != batch.number:
            raise RestoreError(
                f"the checkpoint {self._files.location!r} has gone on while it was read: a query "
                "runs on it. Stop it first; nothing was written."
            )

    def listed_files(self, source: int, last: int) -> list[str]:
        """The URIs of the files that a file source had listed up to one of its own batches."""
        folder = f"{SOURCES}/{source}"
        found: dict[str, None] = {}
        for name in self._files.names(folder):
            if name.removesuffix(_COMPACT).isdigit():
                lines = self._lines(f"{folder}/{name}", ("v1",))
                entries = (self._json(f"{folder}/{name}", line) for line in lines)
                found |= dict.fromkeys(
                    str(entry["path"]) for entry in entries if entry["batchId"] <= last
                )
        return list(found)

    # ------------------------------------------------------------ files

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._files.names(folder) if name.isdigit()]

    def _lines(self, name: str, versions: tuple[str, ...]) -> list[str]:
        return self._versioned(name, versions)[1]

    def _versioned(self, name: str, versions: tuple[str, ...]) -> tuple[str, list[str]]:
        """The version in the first line of a file, and its other lines."""
        version, *lines = [line for line in self._files.text(name).splitlines() if line] or [""]
        if version not in versions:
            raise RestoreError(
                f"{self._files.location}/{name} begins with {version[:20]!r}, and is read in the "
                f"formats {', '.join(versions)}. It is damaged, or of a version of Spark that this "
                "version of Mainstay does not know."
            )
        return version, lines

    def _offset(self, name: str, line: str) -> Any:
        return None if line == _NO_OFFSET else self._parsed(name, line)

    def _json(self, name: str, line: str) -> dict[str, Any]:
        found = self._parsed(name, line)
        if not isinstance(found, dict):
            raise self._damaged(name, "it has no object of JSON")
        return found

    def _parsed(self, name: str, line: str) -> Any:
        try:
            return json.loads(line)
        except ValueError as error:
            raise self._damaged(name, str(error)) from error

    def _damaged(self, name: str, why: str) -> RestoreError:
        return RestoreError(
            f"{self._files.location}/{name} is damaged: {why}. Bring its original content back, or "
            "name another checkpoint."
        )

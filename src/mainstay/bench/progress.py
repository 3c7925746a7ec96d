"""How far a job had read at an epoch, and what it had read: known from the epoch's manifest.

Between two epochs lie exactly the records between their two cuts; no other way of counting is as
exact while a job runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mainstay.connectors.generators import Share
from mainstay.runtime.coordinator.splits import unfinished_splits
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.storage import Storage


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """How many rows of a split of a ``Generate`` source were read."""

    share: Share
    rows: int

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The numbers that were read, as (first, count)."""
        for position in range(0, self.rows, self.share.run):
            yield self.share.id_at(position), min(self.share.run, self.rows - position)


def manifest_of(storage: Storage, epoch: int) -> Manifest:
    committed = read_history(storage).epoch(epoch)
    if committed is None:
        raise LookupError(f"epoch {epoch} was not committed in {storage!r}")
    return read_manifest(storage, committed.manifest)


def progress_of(manifest: Manifest, source: str) -> list[SplitProgress]:
    """What each split of a source had given."""
    found = []
    for subtask in manifest.operators[source].subtasks:
        for unit in unfinished_splits(subtask):
            rows = (unit["offset"] or 0) + unit["skip"]
            found.append(SplitProgress(Share.of(unit["data"]), rows))
    return found


def records_at(manifest: Manifest, source: str) -> int:
    return sum(split.rows for split in progress_of(manifest, source))

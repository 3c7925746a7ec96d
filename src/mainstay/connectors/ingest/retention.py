"""What a job has read of an ingest log, as its epochs tell it, and what may be deleted for that.

Of the batches of a log, those before the first that an epoch still needs were read to their end
when the epoch was taken. The newest epoch says how much was read; what every manifest that is
still stored has behind it may be deleted. Manifests that never came to count only make this keep
more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mainstay.connectors.ingest.laned_source import LanePlace
from mainstay.connectors.ingest.log import IngestLog, batch_of, is_lane
from mainstay.runtime.connector import Json
from mainstay.runtime.coordinator.splits import seen_in, unfinished_splits
from mainstay.snapshot.layout import MANIFEST_PREFIX
from mainstay.snapshot.manifest import Manifest, SubtaskState
from mainstay.snapshot.storage import NotFound, Storage


def first_needed(manifest: Manifest, uid: str) -> int:
    """The first batch that a job restored from this epoch would read from."""
    notes, operator = manifest.sources.get(uid), manifest.operators.get(uid)
    seen = seen_in(notes)
    if operator is None or not seen:
        return 0
    after_all = [batch_of(id) + 1 for id in seen if not is_lane(id)]
    unfinished = [batch for part in operator.subtasks for batch in _batches(part)]
    return min([*([max(after_all)] if after_all else []), *unfinished], default=0)


def is_read(manifest: Manifest, log: IngestLog) -> bool:
    """Whether an epoch is behind all rows of a log."""
    slots = map(log.slot, reversed(log.batches()))
    last = next((slot.batch for slot in slots if slot is not None and slot.files), None)
    return last is None or first_needed(manifest, log.uid) > last


def _batches(part: SubtaskState) -> list[int]:
    """The batches at which the splits stand that a subtask had not read to their end."""
    return [_batch_at(unit) for unit in unfinished_splits(part)]


def _batch_at(unit: Mapping[str, Json]) -> int:
    id: str = unit["id"]
    return LanePlace.of(unit["offset"]).batch if is_lane(id) else batch_of(id)


class IngestRetention:
    """Moves the mark of a log on and deletes what is behind it."""

    def __init__(self, storage: Storage, uid: str) -> None:
        self._storage = storage
        self._log = IngestLog(storage, uid)
        self._needed: dict[str, int] = {}

    def advance(self) -> None:
        """Do what the stored epochs allow. To be called once an epoch is known to be complete.

        A restart then goes to that epoch or a later one, never back to nothing.
        """
        try:
            self._needed = {path: self._first_needed(path) for path in self._manifests()}
        except NotFound:
            return  # Retention has just deleted one of them; what is left is looked at next time.
        if not self._needed:
            return
        newest = self._needed[max(self._needed)]
        mark = replace(self._log.mark(), read_bytes=self._bytes_before(newest))
        if mark != self._log.mark():
            self._log.set_mark(mark)
        self._log.truncate(min(self._needed.values()))

    def _manifests(self) -> list[str]:
        return self._storage.list(MANIFEST_PREFIX.rstrip("/"))

    def _first_needed(self, path: str) -> int:
        if path in self._needed:
            return self._needed[path]
        manifest = Manifest.from_bytes(self._storage.read(path), path)
        return first_needed(manifest, self._log.uid)

    def _bytes_before(self, batch: int) -> int:
        """How many bytes there are in all the batches before one, deleted ones too."""
        slot = self._log.slot(batch)
        if slot is not None:
            return slot.bytes_before
        before = self._log.slot(batch - 1) if batch else None
        return before.bytes_after if before is not None else 0

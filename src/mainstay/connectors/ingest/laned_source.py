"""A streaming DataFrame in the order of its micro-batches, and with event time.

A split is a *lane*. It goes through all batches and reads its share of the files of each. With one
lane all rows of a batch come before those of the next; several are read side by side.

A micro-batch has no order of its own, so none of its rows may be late because of another one. Event
time therefore moves behind a batch and not within it, as it does in Spark: with the newest time of
all rows so far, which the batch's slot says, less the delay. A lane knows of every batch whether it
is behind it, also where no file of it was its own. So the lowest watermark of all lanes is that of
the last batch that all of them have read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mainstay.connectors.ingest.files import read_file
from mainstay.connectors.ingest.log import DataFile, IngestLog, Slot, lane_id
from mainstay.connectors.ingest.source import IngestSource, beginning_is_gone, read_otherwise
from mainstay.errors import SourceError
from mainstay.runtime.connector import Json, Polled, Split, SplitReader
from mainstay.runtime.watermarks import END_US

LANES = 4
"""How many lanes a log has that need not be read in order."""
LOOK_S = 0.25
"""How often a batch is looked for that is not there yet."""
_REMEMBERED = 64
"""How many slots are remembered, for lanes that come to them later."""


class LanedIngestSource(IngestSource):
    """The rows of a streaming DataFrame, with a watermark behind each of its batches whose slot
    tells event time."""

    reads_at_once = None
    replan_s = None

    def __init__(
        self,
        location: str | None,
        uid: str,
        schema: pa.Schema,
        *,
        lanes: int = LANES,
        delay_us: int = 0,
    ) -> None:
        super().__init__(location, uid, schema, bounded=False)
        self.tells_time = True
        self.lanes = lanes
        self.delay_us = delay_us
        self._slots_seen: _Slots | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_slots_seen": None}

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        lanes = {lane_id(lane, self.lanes): lane for lane in range(self.lanes)}
        if not seen <= lanes.keys():
            raise read_otherwise(self.uid)
        return [
            Split(id, {"lane": lane, "of": self.lanes})
            for id, lane in lanes.items()
            if id not in seen
        ]

    def forget(self, seen: frozenset[str]) -> Collection[str]:
        return ()

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        if self._slots_seen is None:
            self._slots_seen = _Slots(IngestLog(self.storage, self.uid))
        lane, lanes = split.data["lane"], split.data["of"]
        return _LaneReader(self, self._slots_seen, lane, lanes, LanePlace.of(offset))

    def time_after(self, slot: Slot) -> int | None:
        """The watermark behind a batch. A row of the end of time is no end: others may follow."""
        return None if slot.newest_us is None else min(slot.newest_us - self.delay_us, END_US - 1)


@dataclass(frozen=True, slots=True)
class LanePlace:
    """Where a lane stands: before a row of one of its files of a batch."""

    batch: int = 0
    file: int = 0
    row: int = 0

    @staticmethod
    def of(offset: Json | None) -> LanePlace:
        return LanePlace() if offset is None else LanePlace(*offset)

    @property
    def offset(self) -> Json:
        return [self.batch, self.file, self.row]


class _Slots:
    """The slots of a log, as the lanes of one task come to them."""

    def __init__(self, log: IngestLog) -> None:
        self._log = log
        self._found: dict[int, Slot] = {}
        self._missed: tuple[int, float] | None = None

    def check_beginning(self, batch: int) -> None:
        """Refuse to wait for a batch that was deleted."""
        first = self._log.batches()[:1]
        if first and batch < first[0]:
            raise beginning_is_gone(self._log.uid, first[0])

    def get(self, batch: int) -> Slot | None:
        """The slot of a batch; None where it is not there yet."""
        slot = self._found.get(batch)
        if slot is not None or self._was_missed(batch):
            return slot
        slot = self._log.slot(batch)
        if slot is None:
            self._missed = (batch, time.monotonic())
        else:
            self._found[batch] = slot
            for old in sorted(self._found)[:-_REMEMBERED]:
                self._found.pop(old, None)
        return slot

    def _was_missed(self, batch: int) -> bool:
        """Whether another lane has just looked for it in vain."""
        return (
            self._missed is not None
            and self._missed[0] == batch
            and time.monotonic() < self._missed[1] + LOOK_S / 2
        )


class _LaneReader(SplitReader):
    """Reads the files of one lane, batch after batch."""

    def __init__(
        self, source: LanedIngestSource, slots: _Slots, lane: int, lanes: int, place: LanePlace
    ) -> None:
        self._source = source
        self._slots = slots
        self._lane, self._lanes = lane, lanes
        self._place = place
        self._is_checked = False
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None

    def poll(self, max_rows: int) -> Polled:
        if not self._is_checked:
            self._slots.check_beginning(self._place.batch)
            self._is_checked = True
        slot = self._slots.get(self._place.batch)
        if slot is None:
            return Polled(None, self._place.offset, ready_in_s=LOOK_S)
        files = self._own(slot)
        if self._place.file >= len(files):
            return self._behind(slot, None)
        taken = self._take(files[self._place.file], max_rows)
        if self._place.file >= len(files):
            return self._behind(slot, taken)
        return Polled(taken, self._place.offset)

    def _own(self, slot: Slot) -> list[DataFile]:
        """The files of a batch that are this lane's; small batches go to one lane after another."""
        numbered = enumerate(slot.files, start=slot.batch)
        return [file for number, file in numbered if number % self._lanes == self._lane]

    def _behind(self, slot: Slot, taken: pa.RecordBatch | None) -> Polled:
        """All of the batch that is this lane's has been read, with what was taken last."""
        self._place = LanePlace(slot.batch + 1)
        time_us = self._source.time_after(slot)
        return Polled(taken, self._place.offset, ready_in_s=0.0, watermark_us=time_us)

    def _take(self, file: DataFile, max_rows: int) -> pa.RecordBatch:
        if self._batches is None:
            self._batches = read_file(self._source.storage, file, self._place.row)
        if self._rest is None:
            self._rest = next(self._batches, None)
        if self._rest is None:
            raise SourceError(
                f"{file.path} ends after {self._place.row} rows; its slot promises {file.rows}."
            )
        taken, rest = self._rest.slice(0, max_rows), self._rest.slice(max_rows)
        self._rest = rest if rest.num_rows else None
        self._place = replace(self._place, row=self._place.row + taken.num_rows)
        if self._place.row >= file.rows:
            self._place = LanePlace(self._place.batch, self._place.file + 1)
            self._batches, self._rest = None, None
        return taken

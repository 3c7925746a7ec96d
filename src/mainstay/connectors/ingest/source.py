"""A DataFrame as a source: reads the ingest log that Spark writes. Needs no Spark itself.

A split is a data file of a committed batch, its offset the number of rows that were read. A batch
DataFrame is bounded: its log is sealed before the job's workers start. A streaming one goes on:
planning finds the batches that were committed since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from mainstay.connectors.ingest.files import read_file
from mainstay.connectors.ingest.log import DataFile, IngestLog, Slot, batch_of, is_lane
from mainstay.errors import SourceError
from mainstay.runtime.connector import Json, Polled, Source, Split, SplitReader
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage


class IngestSource(Source):
    """The rows of the DataFrame that enters the job at ``uid``."""

    may_block = True
    reads_at_once: int | None = 4
    new_input = (
        "nothing: a batch DataFrame is read once. Read files with connectors.Files, or give "
        "from_dataframe a streaming DataFrame"
    )

    def __init__(self, location: str | None, uid: str, schema: pa.Schema, *, bounded: bool) -> None:
        self.location = location
        self.uid = uid
        self.schema = schema
        self.bounded = bounded
        self.tells_time = bounded  # A table has no order, so it has no time before its end.
        self._opened: Storage | None = None
        self._known: dict[int, Slot] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A storage belongs to the process that opened it.
        return {**self.__dict__, "_opened": None, "_known": {}}

    @property
    def storage(self) -> Storage:
        if self._opened is None:
            if self.location is None:
                raise SourceError(
                    f"the DataFrame of {self.uid!r} has no ingest log: the job has no snapshot "
                    "directory. In tests, give its rows by inputs=."
                )
            self._opened = open_storage(self.location)
        return self._opened

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        if any(map(is_lane, seen)):
            raise read_otherwise(self.uid)
        log = IngestLog(self.storage, self.uid)
        if self.bounded and not log.is_sealed:
            raise SourceError(
                f"the DataFrame of {self.uid!r} was not written to its ingest log to the end."
            )
        slots = self._slots(log)
        self._check_beginning(slots, seen)
        return [
            Split(id, file.document())
            for slot in slots
            for id, file in zip(slot.splits, slot.files, strict=True)
            if id not in seen
        ]

    def forget(self, seen: frozenset[str]) -> Collection[str]:
        """What is deleted from the log does not come back. The last of it is kept: it says that
        the job has read what came before the log's beginning."""
        first = min(self._known.values(), key=lambda slot: slot.batch, default=None)
        if first is None:
            return ()
        return {id for id in seen if batch_of(id) < first.batch and id != first.last_before}

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        return _FileReader(self.storage, DataFile(**split.data), offset or 0)

    def _slots(self, log: IngestLog) -> list[Slot]:
        """The slots that are there, in order; each is read once."""
        known: dict[int, Slot] = {}
        for batch in log.batches():
            slot = self._known.get(batch) or log.slot(batch)
            if slot is not None:
                known[batch] = slot
        self._known = known
        return list(known.values())

    def _check_beginning(self, slots: list[Slot], seen: frozenset[str]) -> None:
        """What was deleted from the log must have been read by what the job goes on from."""
        last_deleted = slots[0].last_before if slots else None
        if last_deleted is not None and last_deleted not in seen:
            raise beginning_is_gone(self.uid, slots[0].batch)


def read_otherwise(uid: str) -> SourceError:
    """What was read of a log is noted in the terms of another way to read it."""
    return SourceError(
        f"the DataFrame of {uid!r} has got or lost a watermark or in_order=True since the job was "
        "started before, and what was read of it is noted otherwise. Say both as they were, give "
        "the DataFrame a uid of its own, or start in another snapshot directory."
    )


def beginning_is_gone(uid: str, first: int) -> SourceError:
    """The job would need batches that are deleted from a log."""
    return SourceError(
        f"the ingest log of {uid!r} begins with batch {first}: what came before was read by the "
        "job's retained epochs and deleted, but this start would need it. Go on from an epoch that "
        'is retained (restore="latest"), or start in another snapshot directory.'
    )


class _FileReader(SplitReader):
    """Nothing is read before the first poll, which runs where waiting is allowed."""

    def __init__(self, storage: Storage, file: DataFile, offset: int) -> None:
        self._offset = offset
        self._file = file
        self._batches: Iterator[pa.RecordBatch] = read_file(storage, file, offset)
        self._rest: pa.RecordBatch | None = None

    def poll(self, max_rows: int) -> Polled:
        if self._rest is None:
            self._rest = next(self._batches, None)
        if self._rest is None:
            self._check_end()
            return Polled(None, self._offset, finished=True)
        taken, rest = self._rest.slice(0, max_rows), self._rest.slice(max_rows)
        self._rest = rest if rest.num_rows else None
        self._offset += taken.num_rows
        return Polled(taken, self._offset, finished=self._offset == self._file.rows)

    def _check_end(self) -> None:
        if self._offset != self._file.rows:
            raise SourceError(
                f"{self._file.path} ends after {self._offset} rows; its slot promises "
                f"{self._file.rows}."
            )

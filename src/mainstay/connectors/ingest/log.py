"""The ingest log: the rows of a DataFrame, made durable by Spark before a job reads them.

::

    ingest/<uid>/data/0000000007-….arrow   rows; each task attempt writes files of its own
    ingest/<uid>/log/0000000007            the slot of batch 7: which of those files count
    ingest/<uid>/sealed                    no batch will be added any more
    ingest/<uid>/mark                      how much the job has read, for those who wait for it
    ingest/<uid>/query                     which query the rows are of

A slot is made with create-if-absent, so a batch that Spark runs again changes nothing, and files
of attempts that were retried, lost or speculative are in no slot. The batches of a log are numbered
without a gap. A slot also says what came before it, so that older ones can be deleted.

Where the job asks for event time, a slot says how far it had come with the slot's rows. Such a slot
has a format of its own, because a version that does not know it would lose the time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mainstay.errors import OutcomeUnknownError, SourceError
from mainstay.snapshot.layout import safe_name
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.storage import NotFound, Storage

INGEST_PREFIX = "ingest/"
LOG_FORMAT = 1
TIMED_FORMAT = 2
"""The format of slots that tell event time."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows, with what is needed to notice that it is damaged."""

    path: str
    rows: int
    bytes: int
    checksum: str
    newest_us: int | None = None
    """The newest event time of its rows, where it was asked for and there is one."""

    def document(self) -> dict[str, Any]:
        """As it is stored: without a time that it does not have."""
        return _without_nothing(asdict(self), "newest_us")

    @property
    def place(self) -> FileRef:
        return FileRef(self.path, self.bytes, self.checksum)


@dataclass(frozen=True, slots=True)
class Slot:
    """What one batch added to the log, and what there was before it."""

    batch: int
    query: str | None
    files: tuple[DataFile, ...]
    bytes_before: int = 0
    last_before: str | None = None
    newest_us: int | None = None
    """The newest event time of all rows up to the end of the batch, where it was asked for."""

    def document(self) -> dict[str, Any]:
        """As it is stored."""
        found = {**asdict(self), "files": [file.document() for file in self.files]}
        return _without_nothing(found, "newest_us")

    @property
    def splits(self) -> list[str]:
        """The ids of the files as splits."""
        return [split_id(self.batch, number) for number in range(len(self.files))]

    @property
    def bytes_after(self) -> int:
        return self.bytes_before + sum(file.bytes for file in self.files)

    @property
    def last_after(self) -> str | None:
        return self.splits[-1] if self.files else self.last_before


@dataclass(frozen=True, slots=True)
class Mark:
    """What the job says to those who write: the bytes it has read, and whether it is ending."""

    read_bytes: int = 0
    is_closing: bool = False


@dataclass(frozen=True, slots=True)
class QueryNote:
    """The query whose rows are in the log: its plan for people, and a digest of all that counts."""

    plan: str
    digest: str


def split_id(batch: int, number: int) -> str:
    return f"{batch}/{number}"


def batch_of(split: str) -> int:
    """The batch that a split is of."""
    return int(split.partition("/")[0])


def lane_id(lane: int, lanes: int) -> str:
    """The id of a split that goes through all batches, and reads its share of their files."""
    return f"lane {lane} of {lanes}"


def is_lane(split: str) -> bool:
    return split.startswith("lane ")


class IngestLog:
    """The log of one DataFrame in a job's storage."""

    def __init__(self, storage: Storage, uid: str) -> None:
        self.uid = uid
        self._storage = storage
        self._prefix = f"{INGEST_PREFIX}{safe_name(uid)}/"

    @property
    def checkpoint(self) -> str:
        """Where the Spark query that writes the log keeps its own progress."""
        return f"{self._prefix}checkpoint"

    def data_path(self, batch: int, name: str) -> str:
        """The path of a data file; ``name`` is one that no other task attempt uses."""
        return f"{self._prefix}data/{batch:010d}-{name}.arrow"

    # ------------------------------------------------------------ slots

    def batches(self) -> list[int]:
        """The batches whose slots are there, in order; a gap is an error."""
        folder = self._slot_path(0).rpartition("/")[0]
        found = sorted(int(path.rpartition("/")[2]) for path in self._storage.list(folder))
        if found and found[-1] - found[0] + 1 != len(found):
            raise SourceError(
                f"the ingest log of {self.uid!r} has the batches {found}: some are missing. Bring "
                "their slots back, or start in another snapshot directory."
            )
        return found

    def slot(self, batch: int) -> Slot | None:
        """The slot of a batch, or None where the batch was not committed (or is deleted)."""
        document = self._read(self._slot_path(batch))
        if document is None:
            return None
        files = tuple(DataFile(**file) for file in document.pop("files"))
        return Slot(**document, files=files)

    def commit(self, batch: int, query: str | None, files: Sequence[DataFile]) -> Slot:
        """Say which files a batch added. Committing a batch again changes nothing."""
        existing = self.slot(batch)
        if existing is None:
            slot = self._next_slot(batch, query, files)
            try:
                if self._create_slot(slot):
                    return slot
            except OutcomeUnknownError:
                if self.slot(batch) is None:
                    raise
            existing = self.slot(batch)
        assert existing is not None
        if None not in (query, existing.query) and query != existing.query:
            raise SourceError(
                f"batch {batch} of the ingest log of {self.uid!r} was written by the Spark query "
                f"{existing.query}, and now by {query}: the query's checkpoint was lost. Bring "
                f"{self.checkpoint} back, or start in another snapshot directory."
            )
        return existing

    def _next_slot(self, batch: int, query: str | None, files: Sequence[DataFile]) -> Slot:
        times = [file.newest_us for file in files]
        if batch == 0:
            return Slot(batch, query, tuple(files), newest_us=_newest(times))
        before = self.slot(batch - 1)
        if before is None:
            raise SourceError(
                f"batch {batch} of the ingest log of {self.uid!r} comes without batch {batch - 1}: "
                "the log and the Spark query's checkpoint do not belong together. Bring both back "
                "as they were, or start in another snapshot directory."
            )
        newest_us = _newest([before.newest_us, *times])
        return Slot(batch, query, tuple(files), before.bytes_after, before.last_after, newest_us)

    # ------------------------------------------------------------ the end, and the mark

    def seal(self) -> None:
        """No batch will be added any more."""
        self._create(f"{self._prefix}sealed", {})

    @property
    def is_sealed(self) -> bool:
        return self._read(f"{self._prefix}sealed") is not None

    def set_mark(self, mark: Mark) -> None:
        self._storage.write(f"{self._prefix}mark", _encoded(asdict(mark)))

    def mark(self) -> Mark:
        document = self._read(f"{self._prefix}mark")
        return Mark() if document is None else Mark(**document)

    def note_query(self, note: QueryNote) -> None:
        self._storage.write(f"{self._prefix}query", _encoded(asdict(note)))

    def query_note(self) -> QueryNote | None:
        """None where nothing was written yet, or by a version that noted nothing."""
        document = self._read(f"{self._prefix}query")
        return None if document is None else QueryNote(**document)

    # ------------------------------------------------------------ deleting

    def truncate(self, keep_from: int) -> int:
        """Delete the batches below ``keep_from``, with files that never counted; says how many.

        The newest batch always stays: the next one builds on it.
        """
        batches = self.batches()
        keep_from = min([keep_from, *batches[-1:]])
        if not batches or batches[0] >= keep_from:
            return 0
        kept = self.data_path(keep_from, "").removesuffix(".arrow")
        found = self._storage.list(f"{self._prefix}data")
        self._storage.delete(*(path for path in found if path < kept))
        # Oldest first, so that a deletion that is cut short leaves no gap.
        dropped = [batch for batch in batches if batch < keep_from]
        for batch in dropped:
            self._storage.delete(self._slot_path(batch))
        return len(dropped)

    # ------------------------------------------------------------ storage

    def _slot_path(self, batch: int) -> str:
        return f"{self._prefix}log/{batch:010d}"

    def _create_slot(self, slot: Slot) -> bool:
        found = LOG_FORMAT if slot.newest_us is None else TIMED_FORMAT
        path = self._slot_path(slot.batch)
        return self._storage.create(path, _encoded(slot.document(), found))

    def _create(self, path: str, document: dict[str, Any]) -> bool:
        return self._storage.create(path, _encoded(document))

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            document: dict[str, Any] = json.loads(self._storage.read(path))
        except NotFound:
            return None
        found = document.pop("format")
        if found not in (LOG_FORMAT, TIMED_FORMAT):
            raise SourceError(
                f"{path} has ingest log format {found}; this version of Mainstay reads the formats "
                f"{LOG_FORMAT} and {TIMED_FORMAT}. Use the version that wrote it or a newer one."
            )
        return document


def _encoded(document: dict[str, Any], format: int = LOG_FORMAT) -> bytes:
    return json.dumps({"format": format, **document}, sort_keys=True).encode()


def _without_nothing(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name or value is not None}


def _newest(times: Sequence[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)

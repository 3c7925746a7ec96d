"""A survey of a job's snapshot directory: its history, and what of it is still stored.

It reads the commit log and the manifests, and lists the rest. So it notices a file that is missing
or has another length; whether the bytes are right takes reading them (``survey_checks``).

An epoch is *kept* while its manifest is stored: retention deletes that first. A manifest that is
absent between others of the lineage, or that of the latest epoch, is therefore lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from mainstay.errors import MainstayError, RestoreError
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.history import Begin, EpochCommitted, History, PastAttempt, SavepointTaken
from mainstay.snapshot.layout import (
    FAILURES_PREFIX,
    GRAPHS_PREFIX,
    LOG_PREFIX,
    MANIFEST_PREFIX,
    STATE_PREFIX,
    STATISTICS_PREFIX,
    log_slot,
)
from mainstay.snapshot.listing import ListedStorage, StoredFile
from mainstay.snapshot.manifest import FileRef, Manifest

PREFIXES = (
    LOG_PREFIX,
    MANIFEST_PREFIX,
    STATE_PREFIX,
    STATISTICS_PREFIX,
    FAILURES_PREFIX,
    GRAPHS_PREFIX,
)
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A file that is not as it should be, and what is wrong with it."""

    path: str
    why: str


@dataclass(frozen=True)
class KeptEpoch:
    """An epoch that can be restored, or could be if its flaws were mended."""

    record: EpochCommitted
    is_latest: bool
    on_lineage: bool
    manifest: Manifest | None
    flaws: tuple[Flaw, ...] = ()

    @property
    def epoch(self) -> int:
        return self.record.epoch

    @cached_property
    def files(self) -> dict[str, FileRef]:
        """The state files that it reaches, each once, by their names."""
        found = () if self.manifest is None else self.manifest.files()
        return {file.name: file for file in found}

    @property
    def size_bytes(self) -> int:
        """With its manifest; files that it shares with other epochs are counted in each."""
        files = sum(file.size_bytes for file in self.files.values())
        return files + self.record.manifest.size_bytes

    @property
    def longest_chain(self) -> int:
        operators = () if self.manifest is None else self.manifest.operators.values()
        return max((len(task.chain) for each in operators for task in each.subtasks), default=0)


@dataclass(frozen=True, slots=True)
class AttemptSurvey:
    """One attempt: its begin, when its slot was stored, and how many epochs it completed."""

    begin: Begin
    begun_at: float | None
    epochs: int


@dataclass(frozen=True, slots=True)
class Directory:
    """A job's snapshot directory."""

    history: History
    files: Mapping[str, StoredFile]
    epochs: tuple[KeptEpoch, ...]

    @property
    def begin(self) -> Begin:
        """The begin of the newest attempt. There always is one: a log begins with it."""
        begin = self.history.last_begin
        assert begin is not None
        return begin

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files.values())

    @property
    def completed(self) -> int:
        """How many epochs were ever completed."""
        return self.history.completed

    @property
    def savepoints(self) -> tuple[SavepointTaken, ...]:
        """The newest savepoints, wherever they are and whether or not they still are."""
        return self.history.savepoints

    def attempts(self) -> tuple[AttemptSurvey, ...]:
        """The newest attempts, oldest first."""
        return tuple(
            AttemptSurvey(each.begin, self._begun_at(each), each.epochs)
            for each in self.history.attempts
        )

    def flaws(self) -> Iterator[tuple[KeptEpoch, Flaw]]:
        """Everything that is known to be wrong, without reading more."""
        return ((epoch, flaw) for epoch in self.epochs for flaw in epoch.flaws)

    def epoch(self, wanted: str) -> KeptEpoch:
        """A kept epoch by its number, or ``latest``."""
        for epoch in self.epochs:
            if str(epoch.epoch) == wanted.lstrip("0") or (epoch.is_latest and wanted == LATEST):
                return epoch
        known = ", ".join(str(epoch.epoch) for epoch in self.epochs) or "none yet"
        raise RestoreError(
            f"there is no epoch {wanted!r} here. Those that are kept: {known}; or say {LATEST!r}."
        )

    def _begun_at(self, attempt: PastAttempt) -> float | None:
        """What the begin says, or where it is of an older version, when its slot was stored."""
        if attempt.begin.begun_at is not None:
            return attempt.begin.begun_at
        return self.stored_at(attempt.slot)

    def stored_at(self, slot: int) -> float | None:
        """When a slot was stored, if it still is there."""
        file = self.files.get(log_slot(slot))
        return None if file is None else file.modified_at


def survey(storage: ListedStorage) -> Directory | None:
    """What is stored; None where no job has ever begun."""
    while True:
        history = read_history(storage)
        if history.last_begin is None:
            return None
        directory = _surveyed(storage, history)
        # A job that runs may complete epochs, and delete older ones, while it is being looked at.
        if not any(directory.flaws()) or read_history(storage).next_slot == history.next_slot:
            return directory


def _surveyed(storage: ListedStorage, history: History) -> Directory:
    files = {file.path: file for prefix in PREFIXES for file in storage.entries(prefix)}
    epochs = (_kept_epoch(storage, history, record, files) for record in _kept(history, files))
    return Directory(history, files, tuple(epochs))


def _kept(history: History, files: Mapping[str, StoredFile]) -> list[EpochCommitted]:
    """The epochs whose manifest is stored or should be, oldest first."""
    lineage = history.lineage_epochs()
    stored = [place for place, record in enumerate(lineage) if record.manifest.path in files]
    kept = set(lineage[stored[0] if stored else -1 :])
    return [record for record in history.epochs if record in kept or record.manifest.path in files]


def _kept_epoch(
    storage: ListedStorage,
    history: History,
    record: EpochCommitted,
    files: Mapping[str, StoredFile],
) -> KeptEpoch:
    is_latest, on_lineage = record == history.latest_epoch, record in history.lineage_epochs()
    try:
        manifest = read_manifest(storage, record.manifest)
    except MainstayError as error:
        flaw = Flaw(record.manifest.path, str(error))
        return KeptEpoch(record, is_latest, on_lineage, None, (flaw,))
    distinct = {file.name: file for file in manifest.files()}.values()
    found = [_flaw(file, files.get(file.path)) for file in distinct]
    flaws = tuple(each for each in found if each is not None)
    return KeptEpoch(record, is_latest, on_lineage, manifest, flaws)


def _flaw(file: FileRef, found: StoredFile | None) -> Flaw | None:
    if found is None:
        return Flaw(file.path, f"it is missing; it had {file.size_bytes} bytes")
    if file.is_shared and found.size_bytes < file.start + file.size_bytes:
        after = file.start + file.size_bytes
        return Flaw(file.path, f"it has {found.size_bytes} bytes, and {after} are needed")
    if not file.is_shared and found.size_bytes != file.size_bytes:
        return Flaw(file.path, f"it has {found.size_bytes} bytes instead of {file.size_bytes}")
    return None

"""Options of a running job, in seconds and counts, checked when they are parsed."""

from __future__ import annotations

from dataclasses import dataclass, field

from mainstay.runtime.spec import Tuning
from mainstay.snapshot.local_copies import MOST_BYTES, CopySettings
from mainstay.snapshot.storage import is_remote


@dataclass(frozen=True, slots=True)
class LocalRecoveryOptions:
    """Whether workers keep copies of state files on their hosts, and where."""

    is_on: bool | None = None
    directory: str | None = None
    most_bytes: int = MOST_BYTES

    def of_processes(self, place: str) -> CopySettings | None:
        """For workers in processes of their own: unless told otherwise, they keep copies of what
        lies in an object store. What is on a disk is near enough."""
        is_on = is_remote(place) if self.is_on is None else self.is_on
        return CopySettings(self.directory, self.most_bytes) if is_on else None

    def embedded(self) -> CopySettings | None:
        """For a job in one process: only if told to."""
        return CopySettings(self.directory, self.most_bytes) if self.is_on else None


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """When epochs are taken, how long they may take, and how many are kept."""

    every_s: float = 10.0
    retain: int = 3
    timeout_s: float = 600.0
    min_pause_s: float = 0.0
    tolerable_failures: int = 3
    max_concurrent: int = 1
    alignment_timeout_s: float = 0.0
    """How long an epoch of an unaligned job may wait for markers before they overtake rows."""
    halt_alignment_s: float = 5.0
    """How long a job that is stopped or rescaled waits for markers before they overtake rows."""
    log_slots: int = 64
    """How many slots of the commit log are kept; the newest alone would do."""
    local_recovery: LocalRecoveryOptions = field(default_factory=LocalRecoveryOptions)

    @property
    def halt_patience_s(self) -> float:
        """How long a halt waits for rows in line: no longer than any other epoch may."""
        return min(self.alignment_timeout_s or self.halt_alignment_s, self.halt_alignment_s)


@dataclass(frozen=True, slots=True)
class RestartOptions:
    """How often a failed job is started again within a window, and how long it waits."""

    max_failures: int = 10
    window_s: float = 600.0
    backoff_s: float = 1.0
    max_backoff_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What to start from: "new", "latest", "latest-or-new", or the number of an epoch.

    ``fall_back`` allows an older epoch in the place of one whose files are damaged. ``origin`` is
    the savepoint, or the other job's directory, that a new history starts from (``start`` is
    "new" then).
    """

    start: str | int = "new"
    allow_dropped: frozenset[str] = frozenset()
    fall_back: bool = False
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Everything a coordinator knows about how to run a job."""

    name: str
    lineage: str
    snapshots: SnapshotOptions = field(default_factory=SnapshotOptions)
    restart: RestartOptions = field(default_factory=RestartOptions)
    restore: RestoreOptions = field(default_factory=RestoreOptions)
    tuning: Tuning = field(default_factory=Tuning)
    min_parallelism: int | None = None
    """What the job may be run at where there is too little room; None: at what was asked for."""

"""What an attempt runs and what it starts from, as the coordinator hands it to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstay.runtime.messages import Attempt
from mainstay.runtime.spec import JobSpec, Partitioning, Tuning
from mainstay.runtime.upgrading import StoredAs
from mainstay.snapshot.landmark import Landmark
from mainstay.snapshot.manifest import OperatorUnits, SegmentRef
from mainstay.snapshot.since import NOTHING_YET, Since


@dataclass(frozen=True, slots=True)
class InFlight:
    """In-flight rows of one channel, and how they reach the subtasks of their operator now.

    ``edge`` is what later snapshots know them by, ``subtask`` is the one that had sent them.
    ``place`` is theirs among all that the operator takes: what goes in turn goes by it.
    """

    edge: str
    port: int
    subtask: int
    partitioning: Partitioning
    rows: bytes
    place: int = 0


@dataclass(frozen=True, slots=True)
class RestoredState:
    """What a subtask of an operator starts from.

    ``rewrite`` says that the files belong to somebody else: the first epoch must not build on
    them. ``origin`` is where they are, if not in the job's own storage. ``stored_as`` says what
    they hold, where that is not what the job declares. ``in_flight`` are rows that had been sent to
    the operator, for all of its subtasks, or at least for this one.
    """

    chain: tuple[SegmentRef, ...] = ()
    units: Mapping[str, OperatorUnits] = field(default_factory=dict)
    rewrite: bool = False
    origin: str | None = field(default=None, kw_only=True)
    stored_as: StoredAs | None = None
    in_flight: tuple[InFlight, ...] = ()


Restored = Mapping[tuple[str, int], RestoredState]
"""What each (operator uid, subtask) starts from."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What one attempt runs and what it starts from."""

    job: JobSpec
    attempt: Attempt
    lineage: str
    restored: Restored = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)
    since: Since = NOTHING_YET
    """The epoch of the job's own that it starts from."""
    retain: int = 1
    """How many complete epochs are kept."""
    is_held: bool = False
    """Whether sources read nothing: the job is about to halt with what it starts from."""
    landmark: Landmark | None = None
    """By which workers know the snapshot directory."""

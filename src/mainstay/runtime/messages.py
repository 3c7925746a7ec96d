"""Everything that is said between the coordinator and the workers, and between workers.

Every message carries the attempt it belongs to; receivers refuse those of another attempt, so
that a worker that lives on after its attempt has ended can disturb nothing.

*Elements* are what travels on a channel, in order: batches, markers, watermarks, and the end of
input. After the end of input a channel still carries markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType, TypeAlias

import pyarrow as pa

from mainstay.runtime.status import Problem
from mainstay.snapshot.manifest import SubtaskState
from mainstay.state.looking import Look

Attempt = NewType("Attempt", int)
Epoch = NewType("Epoch", int)
ChannelId = NewType("ChannelId", int)

# ---------------------------------------------------------------- elements of a channel


@dataclass(frozen=True, slots=True)
class Marker:
    """Everything before it on the channel belongs to the epoch, nothing after it does."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """No more batches will come on this channel; markers still will."""


@dataclass(frozen=True, slots=True)
class TimeMark:
    """A watermark in flight: no row after it is older than its time.

    Its time is in microseconds since 1970; None promises nothing. An idle channel holds
    nobody back until it carries the next watermark that is not idle.
    """

    time_us: int | None
    is_idle: bool = False


Element: TypeAlias = "pa.RecordBatch | Marker | EndOfInput | TimeMark"

# ---------------------------------------------------------------- between workers


@dataclass(frozen=True, slots=True)
class Data:
    """An element that is sent to another worker. ``sequence`` counts per channel, from zero.

    ``size_bytes`` is what the sender paid for it: the receiver grants exactly that, because the
    size of a batch may change on the way.
    """

    attempt: Attempt
    channel: ChannelId
    sequence: int
    element: Element
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Overtaken:
    """How many elements the sender of a channel had sent when it cut for an epoch."""

    attempt: Attempt
    channel: ChannelId
    epoch: Epoch
    sequence: int


@dataclass(frozen=True, slots=True)
class Credit:
    """The receiver has consumed this many bytes of the channel: as many more may be sent."""

    attempt: Attempt
    channel: ChannelId
    size_bytes: int


# ---------------------------------------------------------------- from the coordinator


@dataclass(frozen=True, slots=True)
class Trigger:
    """Begin an epoch: the sources of the worker note their positions and emit the marker.

    After the ``is_last`` one they read nothing more: the attempt halts with that epoch.
    """

    attempt: Attempt
    epoch: Epoch
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Overtake:
    """Cut for this epoch at once, wherever in-flight rows can be part of the cut."""

    attempt: Attempt
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Drain:
    """Take the input for ended where it stands: what operators hold back is to be flushed."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class EndLoops:
    """No row is left in any loop, and none will enter: heads end when their input has."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class AbortEpoch:
    """The epoch was aborted: stop waiting for its markers."""

    attempt: Attempt
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochComplete:
    """The epoch is committed in the log; so is everything before it.

    While a savepoint of an earlier one is being written, ``saved`` is that one: state outside the
    job must not be moved on beyond it.
    """

    attempt: Attempt
    epoch: Epoch
    saved: Epoch | None = None


@dataclass(frozen=True, slots=True)
class SinkCommitted:
    """A global sink has committed everything up to this epoch: its handles can be forgotten."""

    attempt: Attempt
    uid: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """Splits for one source subtask; ``last`` says that there will be no others."""

    attempt: Attempt
    uid: str
    subtask: int
    splits: tuple[Any, ...]
    last: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """What is kept for these keys of some states just now? Without keys: for so many.

    ``number`` is that of the question; the answer says it again.
    """

    attempt: Attempt
    number: int
    uid: str
    states: tuple[str, ...]
    keys: tuple[Any, ...] | None
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """The attempt is over: give back what is held, and end.

    In good order (the job has finished, was stopped, or is rescaled) functions are closed, and the
    worker says when they are.
    """

    attempt: Attempt
    in_good_order: bool = True


# ---------------------------------------------------------------- to the coordinator


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has restored its state and can take triggers and splits.

    What it has read of state for that: from its own host, and from the storage.
    """

    attempt: Attempt
    worker: int
    local_bytes: int = 0
    stored_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """What a subtask measured of one epoch."""

    alignment_s: float = 0.0
    sync_s: float = 0.0
    async_s: float = 0.0
    size_bytes: int = 0
    in_flight_rows: int = 0
    start_delay_s: float = 0.0
    """From the trigger, as its worker got it, to the first marker that it took. Both by the clock
    of one worker: those of others may differ."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Every segment of the subtask's chains for this epoch is durable."""

    attempt: Attempt
    epoch: Epoch
    task: str
    subtask: int
    states: Mapping[str, SubtaskState]
    figures: Figures = field(default_factory=Figures)


@dataclass(frozen=True, slots=True)
class Decline:
    """The subtask cannot take part in this epoch."""

    attempt: Attempt
    epoch: Epoch
    task: str
    subtask: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The subtask has seen the end of its input and has flushed what it held back."""

    attempt: Attempt
    task: str
    subtask: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The subtask's sinks have confirmed everything up to this epoch."""

    attempt: Attempt
    epoch: Epoch
    task: str
    subtask: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The database of the subtask's state has everything up to this epoch.

    One that has a database says so with epoch 0 before it is ready.
    """

    attempt: Attempt
    epoch: Epoch
    task: str
    subtask: int


@dataclass(frozen=True, slots=True)
class OutsideProblem:
    """What a subtask's source, sink or state files wait for outside; None when that is over.

    ``holds_epochs`` says that epochs wait for it, too.
    """

    attempt: Attempt
    uid: str
    subtask: int
    problem: Problem | None
    holds_epochs: bool = False


@dataclass(frozen=True, slots=True)
class StateReads:
    """What a subtask has read so far of state in an external database."""

    hits: int = 0
    """Keys whose state was in memory when their rows came."""
    misses: int = 0
    single_reads: int = 0
    """Round trips that the subtask had to wait for, because nobody could foresee the key."""
    reads: int = 0
    read_s: float = 0.0
    """How long the reads for slices of rows took, all together."""
    parked_s: float = 0.0
    """How long rows have waited for them."""


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """What a subtask has done so far in this attempt, and whether it is held back just now."""

    rows: int = 0
    is_held_back: bool = False
    skipped: int = 0
    """Malformed records that its source has left out."""
    watermark_us: int | None = None
    """How far event time has come, where a source makes watermarks."""
    queued_rows: int = 0
    """Rows that wait to go through a loop again."""
    is_source: bool = False
    """Whether its rows are what a source has emitted: the input of the job."""
    waiting_rows: int = 0
    """Rows in line before it, as far as they have arrived."""
    row_s: float = 0.0
    """How long it took for a row lately."""
    load: float = 0.0
    """Which part of the time it was at work lately."""
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How many rows each of its operators has taken and emitted, by uid."""
    state_reads: StateReads | None = None
    """What it has read of state in an external database; None where it has none."""
    lasted_s: float = 0.0
    """How long the subtask has existed. What it was neither busy nor held back, it was idle."""
    busy_s: float = 0.0
    """How long of that it was at work on rows."""
    held_back_s: float = 0.0
    """How long of that its outputs, its sinks or its state took nothing more."""
    hot_keys: tuple[tuple[str, float], ...] = ()
    """The keys with most of its rows lately, as text, with the part that each has."""
    is_idle: bool = False
    """Whether it holds nobody's event time back: its input is quiet or at its end."""
    sides: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How many rows each of its operators has emitted into each side output, by uid and name."""
    timers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How many timers its operators hold, and how many have fired, by uid; of those that may have
    some."""
    late: Mapping[str, int] = field(default_factory=dict)
    """How many rows came too late for the windows of each of its operators, by uid."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What the tasks of a worker have done so far, by task."""

    attempt: Attempt
    worker: int
    tasks: Mapping[str, TaskMetrics]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a worker has found for a question, by state, all at one moment.

    ``error`` says why it could not look.
    """

    attempt: Attempt
    number: int
    worker: int
    looks: Mapping[str, Look]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Released:
    """The worker has ended in good order; ``trouble`` is what closing its functions raised."""

    attempt: Attempt
    worker: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """The worker cannot go on; the attempt ends."""

    attempt: Attempt
    worker: int
    error: Exception

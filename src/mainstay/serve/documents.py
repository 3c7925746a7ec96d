"""What the REST service answers with: these are the schemas of its OpenAPI document.

Times are seconds since 1970 (``_at``), durations are seconds (``_s``), sizes are bytes
(``_bytes``). What is not known is null.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """What every answer has in common."""

    model_config = ConfigDict(frozen=True)


# ---------------------------------------------------------------- the job


class Verdict(Document):
    """Whether the job is well, in words."""

    is_well: bool
    headline: str
    because: list[str] = []
    remedy: str = ""


class ProblemDocument(Document):
    """Something that keeps the job from making progress just now."""

    subject: str
    what: str
    error: str
    waited_s: float
    text: str


class JobDocument(Document):
    """The job at a glance; ``at`` is the moment, by the clock that all times here are of."""

    at: float
    name: str
    status: str
    status_since_at: float | None
    is_live: bool
    role: str
    parallelism: int | None
    asked_parallelism: int | None
    max_parallelism: int | None
    leader: str
    attempt: int | None
    started_at: float | None
    snapshot_place: str
    version: str
    epoch: int | None
    last_epoch_at: float | None
    epoch_every_s: float | None
    rows_in: int | None
    rows_in_per_s: float | None
    rows_out_per_s: float | None
    verdict: Verdict
    problems: list[ProblemDocument] = []


class HealthDocument(Document):
    """Whether the process is alive, or ready, and if it is not, why."""

    is_ready: bool
    role: str
    reason: str


# ---------------------------------------------------------------- graph and tasks


class OperatorDocument(Document):
    """One operator. ``kind`` is source, sink, loop, keyed or rows; empty where it is not known."""

    uid: str
    kind: str
    name: str
    parallelism: int
    task: str
    states: list[str] = []


class EdgeDocument(Document):
    """Rows go from one operator to another; ``side`` is the side output that they come from."""

    sender: str = Field(alias="from")
    receiver: str = Field(alias="to")
    kind: Literal["forward", "key", "rebalance", "partition", "broadcast", "loop"]
    side: str = ""


class TaskDocument(Document):
    """A chain of operators that runs as one."""

    id: str
    operators: list[str]
    parallelism: int


class GraphDocument(Document):
    """The dataflow. Of a job that does not run here it is that of its last attempt; a directory of
    an older version has the operators with state alone, without edges."""

    is_live: bool
    operators: list[OperatorDocument]
    edges: list[EdgeDocument]
    tasks: list[TaskDocument]


class StateReadsDocument(Document):
    """What was read of state in an external database."""

    hits: int
    misses: int
    hit_ratio: float | None
    single_reads: int
    reads: int
    read_s: float
    parked_s: float


class HotKeyDocument(Document):
    """A key that has many rows: ``share`` is its part of those of the subtask lately."""

    key: str
    share: float


class CountsDocument(Document):
    """How many rows an operator has taken and emitted in the running attempt.

    ``sides`` are those that it has emitted into each side output, whether anything reads it or not.
    ``hot_keys`` are by a sample, the largest first. Keys are shown as text, long ones cut.
    ``late_rows`` came too late for every window of the operator.
    """

    uid: str
    rows_in: int
    rows_out: int
    rows_in_per_s: float
    rows_out_per_s: float
    hot_keys: list[HotKeyDocument] = []
    sides: dict[str, int] = {}
    late_rows: int = 0


class SubtaskDocument(Document):
    """One subtask. ``busy``, ``backpressured`` and ``idle`` are parts of the last seconds.

    They add up to 1. The fields that end in ``_total_s`` are of the whole attempt. A subtask
    reports twice in a second: where ``report_age_s`` is more, a call of a function holds its
    worker, and the other figures are as old as that. It is null when the job does not run.
    """

    subtask: int
    rows: int
    rows_per_s: float
    emitted_per_s: float
    busy: float
    backpressured: float
    idle: float
    busy_total_s: float
    backpressured_total_s: float
    idle_total_s: float
    waiting_rows: int
    row_s: float
    watermark_at: float | None
    skipped: int
    report_age_s: float | None = None
    operators: list[CountsDocument] = []
    state_reads: StateReadsDocument | None = None


class TaskFigures(Document):
    """One task with its subtasks. Fractions are those of the worst subtask, counts are sums."""

    task: str
    operators: list[str]
    parallelism: int
    rows: int
    rows_per_s: float
    busy: float
    backpressured: float
    waiting_rows: int
    subtasks: list[SubtaskDocument]


class TasksDocument(Document):
    """The figures of the running attempt; none where the job does not run here."""

    is_live: bool
    attempt: int | None
    tasks: list[TaskFigures]


# ---------------------------------------------------------------- epochs


class EpochDocument(Document):
    """One epoch. ``status`` is pending, complete, subsumed or failed."""

    epoch: int
    attempt: int
    status: str
    begun_at: float | None
    duration_s: float | None
    size_bytes: int | None
    in_flight_rows: int
    is_unaligned: bool
    cause: str
    is_kept: bool


class SubtaskEpoch(Document):
    """What a subtask measured of an epoch.

    ``start_delay_s`` is from the trigger, as its worker got it, to the first marker at the subtask.
    """

    task: str
    subtask: int
    start_delay_s: float
    alignment_s: float
    sync_s: float
    async_s: float
    size_bytes: int
    in_flight_rows: int


class EpochDetail(EpochDocument):
    """One epoch with its subtasks, as far as known; ``waiting_for`` while it is pending."""

    subtasks: list[SubtaskEpoch] = []
    waiting_for: list[str] = []


# ---------------------------------------------------------------- what has happened


class AttemptDocument(Document):
    """One attempt. ``restored_from`` is an epoch; ``report`` says what was restored."""

    attempt: int
    begun_at: float | None
    ended_at: float | None
    restored_from: int | None
    origin: str
    epochs: int | None
    reason: str
    report: list[str] = []


class RecoveryDocument(Document):
    """How an attempt took over from the one before it."""

    attempt: int
    kind: Literal["failure", "rescale", "takeover"]
    reason: str
    failed_at: float
    running_at: float
    wait_s: float
    relaunch_s: float
    restore_s: float
    local_bytes: int = 0
    stored_bytes: int = 0


class FailureDocument(Document):
    """An attempt that failed: where, why, and what was done about it."""

    attempt: int | None
    at: float
    where: str
    cause: str
    outcome: str
    done: str
    operator: str
    subtask: int | None
    worker: int | None
    traceback: str


class TimelineEntry(Document):
    """Something that happened to the job. ``at`` is null where it is not known when."""

    at: float | None
    kind: Literal["attempt", "leader", "rescale", "savepoint", "failure", "end"]
    text: str


# ---------------------------------------------------------------- state


class StateDocument(Document):
    """A state that can be asked for by its name ``operator.state``.

    ``columns`` is how it was declared, for clients that read Arrow.
    """

    name: str
    kind: str
    key_type: str | None
    value_type: str
    key_names: list[str]
    columns: dict[str, Any]


class KeyGroupDocument(Document):
    """A key-group of an operator. Its bytes are its share of its states' files, by rows."""

    group: int
    subtask: int
    rows: int
    size_bytes: int


class KeyGroupsDocument(Document):
    """How the keyed state of an operator is spread. Rows are stored rows, changes among them.

    ``skew`` is the largest group over the mean; null where there are no rows.
    """

    operator: str
    epoch: int
    skew: float | None
    checkpoint_bytes: int
    groups: list[KeyGroupDocument]


class MomentDocument(Document):
    """Of which moment an answer is. ``level`` is live or committed."""

    level: Literal["live", "committed"]
    attempt: int
    epoch: int | None
    at: float
    age_s: float
    took_s: float


class AnswerDocument(Document):
    """Rows of one state at one moment; ``is_cut``: there are more than were given."""

    state: str
    rows: list[dict[str, Any]]
    is_cut: bool
    moment: MomentDocument


class AnswersDocument(Document):
    """What a query is answered with."""

    answers: list[AnswerDocument]


class SqlDocument(Document):
    """The rows of a statement; ``is_cut``: there are more than were given."""

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool


# ---------------------------------------------------------------- actions, events, errors


class DoneDocument(Document):
    """What became of a request to the job; ``is_done`` is false while it is still under way."""

    is_done: bool
    text: str
    status: str
    path: str | None = None


class EventDocument(Document):
    """What ``/events`` sends every second; ``kept_epochs`` are those that can be restored."""

    job: JobDocument
    tasks: TasksDocument
    epochs_since: list[EpochDocument]
    kept_epochs: list[int]


class ErrorDocument(Document):
    """Why a request was not answered, and what to do about it.

    ``type`` is the name of the error in ``mainstay.errors``, where it is one of those.
    """

    error: str
    kind: Literal["not_found", "bad_request", "conflict", "refused", "timeout", "internal"]
    type: str = ""

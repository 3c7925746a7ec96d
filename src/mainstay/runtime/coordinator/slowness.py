"""Slowness: what a job waits for inside itself, for people to see, and what would help.

Decided from what the workers measure and from the epochs that are pending. Nothing here changes
what a job does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mainstay.runtime.coordinator.epochs import PendingEpoch, Subtask
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.spec import JobSpec, OperatorSpec, TaskSpec
from mainstay.runtime.status import Problem

LATE_S = 5.0
"""No epoch is late before this time, unless somebody waits for it."""
ASKED_LATE_S = 2.0
"""An epoch that somebody waits for is late after this time."""
LATE_INTERVALS = 2
LATEST_S = 60.0
"""An epoch is late after two intervals, or a minute where they are long."""
SLOW_ROW_S = 0.005
"""A function that takes so long for a row is slow, if its subtask does nothing else."""
BUSY = 0.9
TELLING_S = 0.5
"""A subtask with less work in line than this does not explain why an epoch waits for it."""


@dataclass(slots=True)
class Slowness:
    """What is slow in one attempt, and since when."""

    job: JobSpec
    every_s: float
    _since: dict[Subtask, float] = field(default_factory=dict)

    def problems(
        self,
        pending: Iterable[PendingEpoch],
        metrics: Mapping[Subtask, TaskMetrics],
        now: float,
        *,
        is_halting: bool,
    ) -> list[Problem]:
        """The subtask that holds an epoch up, if one is late; otherwise what is slow for a row."""
        slow = self._slow(metrics, now)
        oldest = min(pending, key=lambda each: each.epoch, default=None)
        if oldest is None or oldest.is_committing or not oldest.waiting:
            return slow
        is_asked = is_halting or oldest.is_last
        patience_s = min(max(LATE_S, LATE_INTERVALS * self.every_s), LATEST_S)
        waited_s = now - oldest.counts_from
        if waited_s < (ASKED_LATE_S if is_asked else patience_s):
            return slow
        return [self._late(oldest, metrics, waited_s, is_asked=is_asked), *slow]

    def _late(
        self,
        epoch: PendingEpoch,
        metrics: Mapping[Subtask, TaskMetrics],
        waited_s: float,
        *,
        is_asked: bool,
    ) -> Problem:
        # The one with the most work in line; others may wait for what it sends.
        found = max(sorted(epoch.waiting), key=lambda each: _line_s(metrics.get(each)))
        figures = metrics.get(found, TaskMetrics())
        if _line_s(figures) < TELLING_S:
            return self._unexplained(epoch, waited_s)
        task, line_s = self._task(found), _line_s(figures)
        what = f"has held up {'the last ' if epoch.is_last else ''}epoch {epoch.epoch}"
        now = epoch.counts_from + waited_s
        advice = self._prospect(task, epoch, now) if is_asked else self._advice(task, epoch)
        why = (
            f"it takes {_shown(figures.row_s)} a row and has {figures.waiting_rows:,} rows in "
            f"line, about {line_s:,.0f} s of work. {advice}"
        )
        return Problem(_name(task, found), what, why, waited_s, comes_and_goes=True)

    def _unexplained(self, epoch: PendingEpoch, waited_s: float) -> Problem:
        """Next to nothing is in line, so it is not rows that are waited for.

        Tasks come in the order of the dataflow: those further down may wait for the first.
        """
        order = {task.id: number for number, task in enumerate(self.job.tasks)}
        first, *others = sorted(epoch.waiting, key=lambda each: (order[each[0]], each))
        more = f" and {len(others)} more" if others else ""
        what = f"has waited for {_name(self._task(first), first).rstrip(',')}{more}"
        return Problem(f"epoch {epoch.epoch}", what, "", waited_s, comes_and_goes=True)

    def _prospect(self, task: TaskSpec, epoch: PendingEpoch, now: float) -> str:
        """What becomes of the rows in line that a halt waits for."""
        cancel = "job.cancel() does not wait for them, and the last complete epoch can be restored"
        if not epoch.is_unaligned and epoch.overtake_at is None:
            return cancel
        if not task.takes_channel_state:
            how = "by a forward edge, a broadcast or a loop" if task.inputs else "from a source"
            return f"Rows that come {how} are not stored with an epoch. {cancel}"
        if epoch.overtake_at is None:
            return "They are being stored with the epoch"
        return (
            f"In {max(0.0, epoch.overtake_at - now):.0f} s they are stored with the epoch instead, "
            "and processed first when the job goes on"
        )

    def _advice(self, task: TaskSpec, epoch: PendingEpoch) -> str:
        if self.job.is_unaligned and epoch.overtake_at is not None:
            return "A shorter alignment_timeout or more parallelism would help"
        if not self.job.is_unaligned and task.takes_channel_state:
            return "More parallelism or mode='unaligned' would help"
        return "More parallelism would help"

    def _slow(self, metrics: Mapping[Subtask, TaskMetrics], now: float) -> list[Problem]:
        slow = {subtask for subtask, figures in metrics.items() if _is_slow(figures)}
        self._since = {each: self._since.get(each, now) for each in slow}
        return [
            Problem(
                _name(self._task(each), each),
                f"has taken {_shown(metrics[each].row_s)} a row",
                "rows wait for it; more parallelism would help",
                now - since,
                comes_and_goes=True,
            )
            for each, since in sorted(self._since.items())
            if now - since >= LATE_S
        ]

    def _task(self, subtask: Subtask) -> TaskSpec:
        return next(task for task in self.job.tasks if task.id == subtask[0])


def _is_slow(figures: TaskMetrics) -> bool:
    return figures.row_s >= SLOW_ROW_S and figures.load >= BUSY


def _line_s(figures: TaskMetrics | None) -> float:
    return 0.0 if figures is None else figures.row_s * figures.waiting_rows


def _name(task: TaskSpec, subtask: Subtask) -> str:
    """A subtask by its operators; sources and sinks are not what is slow about a chain."""
    inner = [each for each in task.operators if each.source is None and each.sink is None]
    uids = " → ".join(repr(each.uid) for each in inner or task.operators)
    return f"{uids}, subtask {subtask[1]},"


def _shown(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2g} ms"


# ---------------------------------------------------------------- operators that emit nothing


@dataclass(frozen=True, slots=True)
class Silent:
    """An operator that took rows and emitted none, although somebody would take them.

    A filter, the stream of malformed records, and what waits for event time or has timers may do so
    (``may_be``); any other function that does has perhaps forgotten its ``yield``.
    """

    uid: str
    rows: int
    may_be: bool

    def __str__(self) -> str:
        hint = "" if self.may_be else "; does its function lack a yield or a return?"
        return f"{self.figures}{hint}"

    @property
    def figures(self) -> str:
        return f"{self.uid!r}: 0 rows out of {self.rows:,} in"


def silent(job: JobSpec, metrics: Mapping[Subtask, TaskMetrics]) -> list[Silent]:
    """The operators that have emitted nothing so far for the rows they took."""
    found = []
    for task, operator in job.operators():
        if not _is_asked(task, operator):
            continue
        figures = [each for (id, _), each in metrics.items() if id == task.id]
        counts = [each.counts.get(operator.uid, (0, 0)) for each in figures]
        rows, emitted = sum(count[0] for count in counts), sum(count[1] for count in counts)
        emitted += sum(sum(each.sides.get(operator.uid, {}).values()) for each in figures)
        if rows and not emitted:
            found.append(Silent(operator.uid, rows, _may_be_silent(operator)))
    return found


def _may_be_silent(operator: OperatorSpec) -> bool:
    has_timers = any(info.timer is not None for info in operator.states)
    is_filter = operator.name.startswith(("filter", "malformed"))
    return operator.needs_time or has_timers or is_filter


def _is_asked(task: TaskSpec, operator: OperatorSpec) -> bool:
    """Whether it is a function whose rows go anywhere."""
    if operator.source is not None or operator.sink is not None or operator.loop is not None:
        return False
    place = task.operators.index(operator)
    is_chained = any(each.upstream == place for each in task.operators)
    return is_chained or any(edge.sender_operator == place for edge in task.outputs)

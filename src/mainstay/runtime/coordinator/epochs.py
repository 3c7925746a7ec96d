"""The epochs of one attempt: which is due, which are pending, which are done.

Pure bookkeeping: the coordinator asks and acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstay.quantities import shown_size
from mainstay.runtime.messages import Acknowledge, Epoch, Figures
from mainstay.runtime.options import SnapshotOptions
from mainstay.runtime.record_list import shown_time
from mainstay.runtime.status import EpochStatus
from mainstay.snapshot.manifest import SubtaskState

URGENT_S = 1.0
"""How long after a failed epoch the next is triggered, if somebody waits for one."""

Subtask = tuple[str, int]
"""A task's id and the number of one of its subtasks."""


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """The history of one epoch, as ``job.snapshots()`` gives it."""

    epoch: Epoch
    attempt: int
    status: EpochStatus
    triggered_at: float
    duration_s: float = 0.0
    size_bytes: int = 0
    figures: Mapping[Subtask, Figures] = field(default_factory=dict, repr=False)
    reason: str = ""
    is_unaligned: bool = False
    """Whether its markers overtook rows."""
    in_flight_rows: int = 0
    """Rows that it holds because they were overtaken; a job that is restored takes them first."""

    def __str__(self) -> str:
        in_flight = f" with {self.in_flight_rows:,} in-flight rows" if self.in_flight_rows else ""
        unaligned = f", unaligned{in_flight}" if self.is_unaligned else ""
        reason = f": {self.reason}" if self.reason else ""
        return (
            f"epoch {self.epoch} (attempt {self.attempt}) {self.status} after "
            f"{self.duration_s:.3f} s, {shown_size(self.size_bytes)}{unaligned}{reason}"
        )

    def cells(self) -> dict[str, str]:
        # Of old epochs the figures are not kept.
        aligned = [each.alignment_s for each in self.figures.values()]
        return {
            "epoch": str(self.epoch),
            "status": self.status.value,
            "triggered (UTC)": shown_time(self.triggered_at),
            "duration": f"{self.duration_s:.3f} s",
            "alignment": f"{max(aligned):.3f} s" if aligned else "",
            "size": shown_size(self.size_bytes),
            "attempt": str(self.attempt),
            "reason": self.reason,
        }


@dataclass(slots=True, eq=False)
class PendingEpoch:
    """An epoch under way. ``sources`` is what the coordinator knew of them at the trigger.

    ``counts_from`` is when the time it may take began: its start, unless it had to wait.
    ``is_final`` is the epoch after the end of all input, ``is_last`` the one to halt with.
    """

    epoch: Epoch
    started: float
    counts_from: float
    triggered_at: float
    waiting: set[Subtask]
    sources: Mapping[str, Any]
    is_final: bool = False
    is_last: bool = False
    is_committing: bool = False
    is_saved: bool = False
    """Whether a savepoint is to be made of it, so that it must hold no in-flight rows."""
    overtake_at: float | None = None
    """When its markers are to overtake rows; None if they are not to, or do so already."""
    is_unaligned: bool = False
    states: dict[Subtask, Mapping[str, SubtaskState]] = field(default_factory=dict)
    figures: dict[Subtask, Figures] = field(default_factory=dict)


class EpochBook:
    """The epochs of one attempt."""

    def __init__(
        self,
        attempt: int,
        subtasks: frozenset[Subtask],
        options: SnapshotOptions,
        first: Epoch,
        now: float,
    ) -> None:
        self._attempt = attempt
        self._subtasks = subtasks
        self._options = options
        self.next_epoch = first
        self.pending: dict[Epoch, PendingEpoch] = {}
        self.failures_in_a_row = 0
        self._last_trigger = now
        self._last_end = now - options.min_pause_s

    # ------------------------------------------------------------ when

    def next_trigger(self) -> float | None:
        """When the next periodic epoch is due; None while as many as allowed are under way."""
        if len(self.pending) >= self._options.max_concurrent:
            return None
        periodic = self._last_trigger + self._options.every_s
        return max(periodic, self._last_end + self._options.min_pause_s)

    def next_trigger_within(self, pause_s: float) -> float | None:
        """When the next epoch is due if it is to come sooner than the periodic ones."""
        periodic = self.next_trigger()
        return None if periodic is None else min(periodic, self._last_end + pause_s)

    def next_urgent_trigger(self) -> float | None:
        """When an epoch that somebody waits for is due: at once, and after a failure soon."""
        periodic = self.next_trigger()
        if periodic is None or not self.failures_in_a_row:
            return None if periodic is None else self._last_trigger
        return min(periodic, self._last_end + URGENT_S)

    def next_timeout(self) -> float | None:
        open_epochs = [p for p in self.pending.values() if not p.is_committing]
        return min((p.counts_from + self._options.timeout_s for p in open_epochs), default=None)

    def expired(self, now: float) -> list[Epoch]:
        """Epochs past their time. One that is being committed can only succeed or be refused."""
        return [
            pending.epoch
            for pending in self.pending.values()
            if not pending.is_committing and now >= pending.counts_from + self._options.timeout_s
        ]

    def postpone(self, now: float) -> None:
        """The job waits for something outside: the time that pending epochs may take begins now."""
        for pending in self.pending.values():
            pending.counts_from = now

    @property
    def has_failed_too_often(self) -> bool:
        return self.failures_in_a_row > self._options.tolerable_failures

    # ------------------------------------------------------------ what

    def begin(
        self,
        now: float,
        wall: float,
        sources: Mapping[str, Any],
        *,
        is_final: bool,
        is_last: bool = False,
    ) -> PendingEpoch:
        epoch = self.next_epoch
        self.next_epoch = Epoch(epoch + 1)
        waiting = set(self._subtasks)
        pending = PendingEpoch(epoch, now, now, wall, waiting, sources, is_final, is_last)
        self.pending[epoch] = pending
        self._last_trigger = now
        return pending

    def acknowledge(self, message: Acknowledge) -> PendingEpoch | None:
        """Take an acknowledgement; the epoch when it was the last one missing.

        Repeated ones, and those of epochs that are no longer pending, change nothing.
        """
        pending = self.pending.get(message.epoch)
        subtask = (message.task, message.subtask)
        if pending is None or subtask not in pending.waiting:
            return None
        pending.waiting.discard(subtask)
        pending.states[subtask] = message.states
        pending.figures[subtask] = message.figures
        return None if pending.waiting else pending

    @property
    def final_is_pending(self) -> bool:
        """Whether an epoch is under way after which there is to be no other."""
        return any(pending.is_final or pending.is_last for pending in self.pending.values())

    def oldest_whole(self) -> PendingEpoch | None:
        """The oldest epoch that everyone has acknowledged and that is not in the log yet."""
        whole = [number for number, pending in self.pending.items() if pending.is_committing]
        return self.pending[min(whole)] if whole else None

    def pending_files(self) -> list[str]:
        """The files that pending epochs reach."""
        return [
            file.path
            for pending in self.pending.values()
            for states in pending.states.values()
            for state in states.values()
            for file in state.files()
        ]

    def complete(self, epoch: Epoch, now: float) -> tuple[EpochRecord, list[EpochRecord]]:
        """Close a committed epoch; older ones that were still pending are subsumed by it."""
        pending = self.pending.pop(epoch)
        self.failures_in_a_row = 0
        self._last_end = now
        older, why = [n for n in self.pending if n < epoch], f"by epoch {epoch}"
        subsumed = [self._close(n, now, EpochStatus.SUBSUMED, why) for n in sorted(older)]
        return self._record(pending, now, EpochStatus.COMPLETE), subsumed

    def fail(self, epoch: Epoch, now: float, reason: str, *, counts: bool = True) -> EpochRecord:
        """Close an epoch that will not be completed. Its segments go with the next one."""
        self.failures_in_a_row += counts
        return self._close(epoch, now, EpochStatus.FAILED, reason)

    def _close(self, epoch: Epoch, now: float, status: EpochStatus, reason: str) -> EpochRecord:
        self._last_end = now
        return self._record(self.pending.pop(epoch), now, status, reason)

    def _record(
        self, pending: PendingEpoch, now: float, status: EpochStatus, reason: str = ""
    ) -> EpochRecord:
        return EpochRecord(
            epoch=pending.epoch,
            attempt=self._attempt,
            status=status,
            triggered_at=pending.triggered_at,
            duration_s=now - pending.started,
            size_bytes=sum(figures.size_bytes for figures in pending.figures.values()),
            figures=dict(pending.figures),
            reason=reason,
            is_unaligned=pending.is_unaligned,
            in_flight_rows=sum(f.in_flight_rows for f in pending.figures.values()),
        )

    def abandon(self, now: float, reason: str) -> list[EpochRecord]:
        """The attempt has ended: close what is pending, without counting it as failures."""
        open_epochs = [p for p in self.pending.values() if not p.is_committing]
        records = [self._record(p, now, EpochStatus.FAILED, reason) for p in open_epochs]
        for pending in open_epochs:
            del self.pending[pending.epoch]
        return records

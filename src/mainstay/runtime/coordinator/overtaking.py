"""Overtaking: from when on the markers of an epoch go before the rows that they wait behind."""

from __future__ import annotations

from collections.abc import Collection

from mainstay.runtime.coordinator.epochs import PendingEpoch
from mainstay.runtime.coordinator.halt import Halt
from mainstay.runtime.messages import Epoch
from mainstay.runtime.options import SnapshotOptions
from mainstay.runtime.spec import JobSpec


class Overtaking:
    """Sets ``overtake_at`` of pending epochs, and says whose time has come."""

    def __init__(self, job: JobSpec, options: SnapshotOptions) -> None:
        self._job = job
        self._options = options
        self._from: float | None = None
        """While the job is halted: from when on markers overtake rows."""

    def begun(self, pending: PendingEpoch, now: float, *, is_last: bool) -> None:
        """An epoch was triggered."""
        if pending.is_saved:
            # What a savepoint holds must be readable by any program: it has no in-flight rows.
            return
        if is_last:
            pending.overtake_at = self._from
        elif self._job.is_unaligned:
            pending.overtake_at = now + self._options.alignment_timeout_s

    def halting(self, halt: Halt, epochs: Collection[PendingEpoch], now: float) -> None:
        """Somebody waits for the job to halt: from some time on no epoch waits for rows in line."""
        if self._from is not None or not halt.overtakes or not self._job.keeps_in_flight:
            return
        self._from = now + self._options.halt_patience_s
        for pending in epochs:
            if not pending.is_saved and not pending.is_unaligned:
                later = pending.overtake_at
                pending.overtake_at = min(self._from, later or self._from)

    def due(self, epochs: Collection[PendingEpoch], now: float) -> list[Epoch]:
        """The epochs whose markers are to overtake rows from now on, each once."""
        found = []
        for pending in epochs:
            if pending.overtake_at is None or now < pending.overtake_at:
                continue
            pending.overtake_at = None
            if not pending.is_committing:
                pending.is_unaligned = True
                found.append(pending.epoch)
        return found

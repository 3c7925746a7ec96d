"""What a run under a seed has come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mainstay.connectors.memory import Memory
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import AttemptRecord
from mainstay.snapshot.storage import Storage
from mainstay.testing.elements import Watermark
from mainstay.testing.inspect import committed_state
from mainstay.testing.pending import PendingTimer, pending_timers
from mainstay.testing.scripted import ObservedSimulation


@dataclass(frozen=True, slots=True)
class Result:
    """What a finished run came to."""

    job: JobSpec
    storage: Storage
    sinks: Mapping[str, Memory]
    simulation: ObservedSimulation
    sides: Mapping[tuple[str, str], Memory]

    def output(self, uid: str) -> list[tuple[Any, ...]]:
        """The committed rows of a sink, in the order of their commits."""
        if uid not in self.sinks:
            raise KeyError(f"there is no sink {uid!r}; the job has {sorted(self.sinks)}")
        return self.sinks[uid].rows()

    def side(self, uid: str, name: str) -> list[tuple[Any, ...]]:
        """The committed rows of a side output of an operator, whether the job reads it or not."""
        if (uid, name) not in self.sides:
            known = sorted(".".join(each) for each in self.sides)
            unread = "; with read_late=False nobody reads late rows" if name == LATE else ""
            raise KeyError(f"there is no side output {uid}.{name}; the job has {known}{unread}")
        return self.sides[uid, name].rows()

    def late(self, uid: str) -> list[tuple[Any, ...]]:
        """The rows that came too late for an operator."""
        return self.side(uid, "late")

    def state(self, uid: str, name: str) -> Any:
        """A state at the last epoch: key to value, or for operator state a list per subtask."""
        return committed_state(self.storage, self.job, uid, name)

    def timers(self, uid: str) -> list[PendingTimer]:
        """The timers of an operator that are set at the last epoch, in the order of their times.

        The end of the input fires all timers of event time, so a run that looks at those has
        ``ends=False``.
        """
        return pending_timers(self.storage, self.job, uid)

    def elements(self, uid: str) -> list[Any]:
        """What an operator has emitted, in order: rows as tuples, and watermarks.

        A watermark of several subtasks is where the lowest of theirs moves on. What was emitted
        after the epoch that the job was restored from counts once.
        """
        return self.simulation.emissions.of(uid)

    def watermarks(self, uid: str) -> list[Watermark]:
        """The watermarks that have gone through an operator."""
        return [each for each in self.elements(uid) if isinstance(each, Watermark)]

    @property
    def snapshots(self) -> RecordList[EpochRecord]:
        """The epochs, oldest first, as ``job.snapshots()`` gives them."""
        return RecordList("epochs", self.simulation.records)

    @property
    def attempts(self) -> RecordList[AttemptRecord]:
        """The attempts, as ``job.attempts()`` gives them."""
        return RecordList("attempts", self.simulation.attempts)

"""Slots that jobs of this process have been promised, whether or not their workers run yet.

Spark knows of a task only once it runs. A job that has just started, or waits before its next
attempt, would look to another job as if its slots were free.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

choosing = threading.RLock()
"""Held while free slots are counted and then reserved."""
_reservations: dict[int, Reservation] = {}
_released_at: dict[str, float] = {}
"""When a job last gave slots back, for each application, in monotonic seconds."""


@dataclass(slots=True, eq=False)
class Reservation:
    """The slots of one job on one Spark application. ``group`` is the Spark job that has them."""

    application: str
    slots: int
    group: str | None = None

    def release(self) -> None:
        """Give the slots back."""
        with choosing:
            if _reservations.pop(id(self), None) is not None:
                _released_at[self.application] = time.monotonic()

    def change(self, slots: int) -> None:
        self.slots = slots


def reserve(session: Any, slots: int) -> Reservation:
    """Promise slots to a job; call it with ``choosing`` held since they were counted."""
    reservation = Reservation(session.sparkContext.applicationId, slots)
    with choosing:
        _reservations[id(reservation)] = reservation
    return reservation


def since_release(session: Any) -> float:
    """Seconds since a job of this process gave slots of the application back; infinite if none."""
    at = _released_at.get(session.sparkContext.applicationId)
    return math.inf if at is None else time.monotonic() - at


def free_slots(session: Any, total: int, running: int) -> int:
    """How many slots nobody has or was promised; ``running`` tasks have one each."""
    promised = sum(each.slots for each in _of(session))
    return total - promised - others(session, running)


def others(session: Any, running: int) -> int:
    """How many of the running tasks are those of no job of this process that still runs."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    groups = [each.group for each in _of(session) if each.group is not None]
    return max(0, running - sum(_active_tasks(tracker, group) for group in groups))


def _of(session: Any) -> list[Reservation]:
    application = session.sparkContext.applicationId
    with choosing:
        return [each for each in _reservations.values() if each.application == application]


def _active_tasks(tracker: Any, group: str) -> int:
    count = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info.isDefined():
            for stage in info.get().stageIds():
                found = tracker.getStageInfo(stage)
                count += int(found.get().numActiveTasks()) if found.isDefined() else 0
    return count

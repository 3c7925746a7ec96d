"""Slots that jobs of this process have been promised, whether or not their workers run yet.

Spark knows of a task only once it runs. A job that has just started, or waits before its next
attempt, would look to another job as if its slots were free.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

choosing = threading.RLock()
"""Held while free slots are counted and then reserved."""
_reservations: dict[int, Reservation] = {}


@dataclass(slots=True, eq=False)
class Reservation:
    """The slots of one job on one Spark application. ``group`` is the Spark job that has them."""

    application: str
    slots: int
    group: str | None = None

    def release(self) -> None:
        """Give the slots back."""
        with choosing:
            _reservations.pop(id(self), None)

    def change(self, slots: int) -> None:
        self.slots = slots


def reserve(session: Any, slots: int) -> Reservation:
    """Promise slots to a job; call it with ``choosing`` held since they were counted."""
    reservation = Reservation(session.sparkContext.applicationId, slots)
    with choosing:
        _reservations[id(reservation)] = reservation
    return reservation


def free_slots(session: Any, total: int, running: int) -> int:
    """How many slots nobody has or was promised; ``running`` tasks have one each."""
    application = session.sparkContext.applicationId
    with choosing:
        ours = [each for each in _reservations.values() if each.application == application]
    tracker = session.sparkContext._jsc.sc().statusTracker()
    at_work = sum(_active_tasks(tracker, each.group) for each in ours if each.group is not None)
    promised = sum(each.slots for each in ours)
    return total - promised - max(0, running - at_work)


def _active_tasks(tracker: Any, group: str) -> int:
    count = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info.isDefined():
            for stage in info.get().stageIds():
                found = tracker.getStageInfo(stage)
                count += int(found.get().numActiveTasks()) if found.isDefined() else 0
    return count

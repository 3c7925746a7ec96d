"""Slots that jobs of this process have been promised, whether or not their workers run yet.

Spark knows of a task only once it runs. A job that has just started, or waits before its next
attempt, would look to another job as if its slots were free.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

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


def reserve(application: str, slots: int) -> Reservation:
    """Promise slots to a job; call it with ``choosing`` held since they were counted."""
    reservation = Reservation(application, slots)
    with choosing:
        _reservations[id(reservation)] = reservation
    return reservation


def since_release(application: str) -> float:
    """Seconds since a job of this process gave slots of the application back; infinite if none."""
    at = _released_at.get(application)
    return math.inf if at is None else time.monotonic() - at


def promised(application: str) -> int:
    """How many slots the jobs of this process have or will have."""
    return sum(each.slots for each in _of(application))


def groups_of(application: str) -> list[str]:
    """The Spark jobs that have been given such slots."""
    return [each.group for each in _of(application) if each.group is not None]


def _of(application: str) -> list[Reservation]:
    with choosing:
        return [each for each in _reservations.values() if each.application == application]

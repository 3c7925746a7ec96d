"""Slots: each runs one task at a time, and each worker of a job needs one.

A job is refused before it starts where Spark would otherwise wait in silence for slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from mainstay.errors import SlotsError
from mainstay.spelling import counted

LOOK_S = 0.1
GATHERING_S, ASKED_S = 30.0, 120.0
"""How long after the start of an application executors may still be starting, and how long those
that were asked for by their number."""
_OF_EXECUTORS = (
    f" Executors may still be starting; {GATHERING_S:.0f} s from the start of the application they "
    "are waited for. Start the job again when they are there, or set spark.executor.instances to "
    f"their number: then it is {ASKED_S:.0f} s."
)


class Slots(NamedTuple):
    """How many tasks can run at once, and how many slots no task or job of ours has."""

    total: int
    free: int


def require_slots(
    look: Callable[[], Slots],
    is_gathering: Callable[[], bool],
    is_lingering: Callable[[], bool],
    workers: int,
    more_slots: int,
    *,
    may_grow: bool = False,
) -> None:
    """Refuse a job for which there are too few, with both numbers and the remedy.

    ``is_gathering`` says whether executors may still be starting: a session is there before
    they are. ``is_lingering`` says whether tasks run that may be those of a job that has just
    ended: Spark ends the tasks of a job that was killed or cancelled seconds after the job itself.
    ``may_grow`` says whether executors may come at any time, as they do on a cluster.
    """
    needed = workers + more_slots
    total, free = look()
    while free < needed and (is_gathering() if total < needed else is_lingering()):
        time.sleep(LOOK_S)
        total, free = look()
    if needed > free:
        raise SlotsError(
            f"the job needs {counted(needed, 'free slot')} ({counted(workers, 'worker')} and "
            f"{more_slots} for queries); the Spark application has {total}, of which {free} "
            f"{'is' if free == 1 else 'are'} free. Lower the parallelism, "
            "end other jobs, add executors or cores, or set spark.task.cpus below 1 "
            "(Spark 4.3 and newer)."
            f"{_OF_EXECUTORS if may_grow and total < needed else ''}"
        )


def require_more_slots(free: int, workers: int, running: int) -> None:
    """Refuse a rescale that has too few slots, counting those that its own workers give back.

    ``free`` is below zero where slots of its own workers have been lost.
    """
    if workers > free + running:
        free = max(0, free)
        raise SlotsError(
            f"the rescaled job needs {counted(workers, 'slot')}; {running} "
            f"{'is' if running == 1 else 'are'} its own and {free} {'is' if free == 1 else 'are'} "
            "free. "
            "Rescale to fewer, end other jobs, or add executors or cores."
        )

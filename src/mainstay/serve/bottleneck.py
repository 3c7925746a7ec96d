"""What limits a job: the busiest task behind those that are held back, and why it is so busy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mainstay.serve.documents import (
    GraphDocument,
    HotKeyDocument,
    SubtaskDocument,
    TaskFigures,
)
from mainstay.serve.figures import HELD_S

HELD_BACK = 0.1
"""A subtask that waits less than this for others is not held back."""
BUSY = 0.5
FULL = 0.8
"""A thread that is at work for so much of the time has none left."""
HOT = 0.25
"""A key with so much of the rows of a subtask is worth being named."""
UNEVEN = 2.0
"""A subtask with so many times the rows of the mean has more keys, or heavier ones, than others."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The subtask that limits the job, in sentences."""

    subject: str
    because: list[str]
    remedy: str


def bottleneck_of(
    tasks: Sequence[TaskFigures], graph: GraphDocument, *, is_one_thread: bool = False
) -> Bottleneck | None:
    """What holds other tasks back; None where nothing is held back.

    ``is_one_thread``: all workers share a thread, and not only the subtasks of each.
    """
    held = [each for each in tasks if each.backpressured >= HELD_BACK]
    if not held:
        return None
    after = _after(graph)
    reached = {name for each in held for name in _reached(each.task, after)}
    free = [each for each in tasks if each.task in reached and each.backpressured < HELD_BACK]
    waits = f"{_names(held[0])} is held back {held[0].backpressured:.0%} of the time."
    if not free:
        return _by_the_outside(held[-1], waits)
    found = max(free, key=lambda each: each.busy)
    slowest = max(found.subtasks, key=lambda each: each.busy)
    own = [each for task in tasks for each in task.subtasks if each.subtask == slowest.subtask]
    every = [each for task in tasks for each in task.subtasks]
    thread = sum(each.busy for each in (every if is_one_thread else own))
    return _limited_by(found, slowest, waits, thread, is_one_thread=is_one_thread)


def held_workers(tasks: Sequence[TaskFigures]) -> str:
    """The workers that do not report, in a sentence; a subtask has its worker's number."""
    ages: dict[int, float] = {}
    for each in (subtask for task in tasks for subtask in task.subtasks):
        if each.report_age_s is not None:
            ages[each.subtask] = min(each.report_age_s, ages.get(each.subtask, each.report_age_s))
    held = {worker: age_s for worker, age_s in ages.items() if age_s >= HELD_S}
    if not held:
        return ""
    first, *others = sorted(held, key=lambda worker: (-held[worker], worker))
    who = f"Worker {first} has" if not others else f"Worker {first} and {len(others)} more have"
    called = "a call of one of its functions has" if not others else "calls of functions have"
    return f"{who} not reported for {held[first]:.0f} s: {called} not returned."


def _limited_by(
    task: TaskFigures, slowest: SubtaskDocument, waits: str, thread: float, *, is_one_thread: bool
) -> Bottleneck:
    because = [waits, f"It is at work {slowest.busy:.0%} of the time, {_pace(slowest)}."]
    uneven, hot = _unevenness(task, slowest), _hot_key(slowest)
    subject = f"{_names(task)}, subtask {slowest.subtask}"
    remedy = "More parallelism, or a faster function, would help."
    if uneven:
        because.append(uneven)
    if hot is not None:
        subject += f": key {hot.key!r} has {hot.share:.0%} of its rows"
        remedy = (
            "More parallelism does not help: all rows of a key go to one subtask. Divide the key, "
            "as by a second column, and join its parts in a second step; or see why it has so many."
        )
    elif uneven:
        remedy = "More parallelism helps little while few keys have most rows: divide such keys."
    elif slowest.busy < FULL <= thread:
        because.append(
            f"The thread that it shares with others is at work {thread:.0%} of the time."
        )
        if is_one_thread:
            remedy = "An embedded job has one thread. On Spark each worker has a process."
    elif slowest.busy < BUSY:
        because.append("It waits for something else: for a processor, for storage or for a target.")
        remedy = "Look at the load of its machine, at the storage and at the target of its sink."
    return Bottleneck(subject, because, remedy)


def _hot_key(subtask: SubtaskDocument) -> HotKeyDocument | None:
    """The key that keeps it busy; one that is not busy waits for something else."""
    if subtask.busy < BUSY:
        return None
    keys = [key for each in subtask.operators for key in each.hot_keys if key.share >= HOT]
    return max(keys, key=lambda each: each.share, default=None)


def _by_the_outside(task: TaskFigures, waits: str) -> Bottleneck:
    """The last task is held back, and nothing comes after it: its sink or its state is."""
    because = [waits, "Its sink, or the storage of its state, does not take what it gives."]
    return Bottleneck(_names(task), because, "Look at the target of the sink and at the storage.")


def _pace(subtask: SubtaskDocument) -> str:
    row_ms = subtask.row_s * 1000
    shown = f"{row_ms:,.0f}" if row_ms >= 100 else f"{row_ms:.3g}"
    took = f"{shown} ms a row" if subtask.row_s else "without rows"
    return f"{took}, with {subtask.waiting_rows:,} rows in line"


def _unevenness(task: TaskFigures, slowest: SubtaskDocument) -> str:
    total = sum(each.rows_per_s for each in task.subtasks)
    share = slowest.rows_per_s / total if total else 0.0
    if len(task.subtasks) < 2 or share * len(task.subtasks) < UNEVEN:
        return ""
    return f"It gets {share:.0%} of the rows of its {len(task.subtasks)} subtasks."


def _names(task: TaskFigures) -> str:
    return " → ".join(repr(uid) for uid in task.operators)


def _after(graph: GraphDocument) -> Mapping[str, set[str]]:
    """The tasks that each task sends to."""
    task_of = {each.uid: each.task for each in graph.operators}
    found: dict[str, set[str]] = {}
    for edge in graph.edges:
        found.setdefault(task_of[edge.sender], set()).add(task_of[edge.receiver])
    return found


def _reached(start: str, after: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    new = after.get(start, set()) - {start}
    while new:
        found |= new
        new = {name for each in new for name in after.get(each, ())} - found - {start}
    return found

"""When a bounded job with loops has come to its end: decided by epochs, never by a timeout.

Suppose that every source had ended before an epoch was triggered, and that the log of every loop
is empty in that epoch. Then nothing was queued at any head when it passed the marker on, nothing
came back before the marker did, and nothing new can enter: no row is left anywhere behind the
markers. So the heads may end, each with its input. Rows that wait for the answer of a function are
passed by markers, and so are asked for as well.
"""

from __future__ import annotations

from mainstay.runtime.coordinator.epochs import Subtask
from mainstay.runtime.messages import Epoch
from mainstay.runtime.own_states import CALLS, FEEDBACK
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.manifest import Manifest

LOOK_S = 0.25
"""How long after an epoch the next is taken, while all that is left to do is in loops."""


class Loops:
    """The loops of one attempt."""

    def __init__(self, job: JobSpec) -> None:
        self._heads = [
            operator.uid
            for _, operator in job.operators()
            if operator.loop is not None and operator.loop.is_head
        ]
        self._sources = {(task.id, subtask) for task, subtask in job.subtasks() if task.is_source}
        self._after_input: set[Epoch] = set()
        self._is_over = not self._heads

    def wants_epoch(self, ended: set[Subtask]) -> bool:
        """Whether an epoch is awaited that may show that no row is left."""
        return not self._is_over and ended >= self._sources

    def triggered(self, epoch: Epoch, ended: set[Subtask]) -> None:
        """An epoch begins; these subtasks had ended before."""
        if self.wants_epoch(ended):
            self._after_input.add(epoch)

    def is_ended_by(self, manifest: Manifest) -> bool:
        """Whether this epoch shows that no row is left; true once."""
        if self._is_over or Epoch(manifest.epoch) not in self._after_input:
            return False
        subtasks = (task for uid in self._heads for task in manifest.operators[uid].subtasks)
        is_left = any(task.units[FEEDBACK.name].count for task in subtasks)
        self._is_over = not is_left and not _has_calls(manifest)
        return self._is_over


def _has_calls(manifest: Manifest) -> bool:
    """Whether rows wait for an answer: these have let the marker pass."""
    subtasks = (task for operator in manifest.operators.values() for task in operator.subtasks)
    return any(task.units[CALLS].count for task in subtasks if CALLS in task.units)

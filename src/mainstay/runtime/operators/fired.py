"""How far an operator has fired, for each of its key-groups.

Lateness is decided by it: a row is late for what has fired. It is part of the snapshot, so that a
restored job neither takes a row that was dropped nor fires anything twice. It is kept by key-group
and not by subtask, because subtasks cut at different times where markers overtake rows or inputs
are idle, and a rescale gives a subtask the key-groups of several.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.own_states import FIRED
from mainstay.state.hashing import key_groups

Times = npt.NDArray[np.int64]
NEVER = -(1 << 63)
"""Before any time."""


class FiredTimes:
    """The times of the key-groups of one subtask, in microseconds since 1970."""

    def __init__(self, context: OperatorContext) -> None:
        self._groups = context.groups
        self._most = context.max_parallelism
        self._state = context.lists[FIRED.name]
        self._times: Times = np.full(len(self._groups), NEVER, np.int64)
        restored = self._state.get()
        for run in restored:
            self._restore(run.first, run.last, run.time_us)
        # What a rescale gave to this subtask may be of key-groups that others have, and those who
        # have them may hold none of it: each stores its own.
        self._is_stored = not restored
        self._note()

    def _restore(self, first: int, last: int, time_us: int) -> None:
        start = max(first - self._groups.first, 0)
        end = min(last - self._groups.first + 1, len(self._times))
        if start < end:
            part = self._times[start:end]
            np.maximum(part, time_us, out=part)

    def _note(self) -> None:
        self.lowest = int(self._times.min(initial=NEVER if not len(self._times) else 1 << 62))
        self.highest = int(self._times.max(initial=NEVER))

    @property
    def is_even(self) -> bool:
        """Whether all key-groups have come equally far, as they have but for a while after a
        restore."""
        return self.lowest == self.highest

    def advance(self, time_us: int) -> None:
        """Everything up to a time has fired. A key-group that was further stays where it was."""
        if time_us <= self.lowest:
            return
        np.maximum(self._times, time_us, out=self._times)
        self._is_stored = False
        self._note()

    def of(self, keys: pa.Array) -> int | Times:
        """How far the key-groups of some keys are: one number where all are equally far."""
        if self.is_even:
            return self.lowest
        groups = key_groups([keys], self._most).astype(np.int64)
        return self._times[groups - self._groups.first]

    def store(self) -> None:
        """Put it into the operator's state; for ``before_marker``."""
        if self._is_stored:
            return
        edges = np.flatnonzero(np.diff(self._times)) + 1
        bounds = [0, *edges.tolist(), len(self._times)]
        first = self._groups.first
        self._state.update(
            (first + start, first + end - 1, int(self._times[start]))
            for start, end in pairwise(bounds)
            if end > start and self._times[start] > NEVER
        )
        self._is_stored = True

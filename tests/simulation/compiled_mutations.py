"""Bugs to plant in how a compiled function comes by its states, and how they come to be kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from mainstay.runtime.compiled.dense import DenseState
from mainstay.runtime.compiled.run import Run
from mainstay.state.backends.heap.value_arrays import HeapValueArrays
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def what_a_trapped_row_writes_is_written_twice() -> Iterator[None]:
    right = Run._interpret

    def again(self: Any, end: int) -> None:
        start = int(self._progress[0])
        right(self, end)
        emitted = len(self._apart)
        self._progress[0] = start
        right(self, end)
        del self._apart[emitted:]

    with patch.object(Run, "_interpret", again):
        yield


@mutation
def the_last_key_of_a_batch_is_not_put_back() -> Iterator[None]:
    right = DenseState.store

    def store(self: Any, handle: Any, keys: Any) -> None:
        places = np.flatnonzero(self.written)
        if len(places) > 1:
            self.written[places[-1]] = False
        right(self, handle, keys)

    with patch.object(DenseState, "store", store):
        yield


@mutation
def what_is_put_by_slot_is_not_in_the_next_snapshot() -> Iterator[None]:
    with patch.object(HeapValueArrays, "_touch", lambda self, slots: None):
        yield

"""What a job says about state in memory: nothing more than that."""

from __future__ import annotations

from dataclasses import dataclass

from mainstay.state.backends.contract import KeyedBackend, Place


@dataclass(frozen=True, slots=True)
class HeapSettings:
    """State in the memory of the workers' processes."""

    def open(self, place: Place) -> KeyedBackend:
        from mainstay.state.backends.heap.backend import HeapBackend

        return HeapBackend(place.states, place.key, place.max_parallelism, place.context)

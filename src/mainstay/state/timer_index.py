"""The timers of one state in the order of their times.

The state is what a snapshot holds; this is how the next timer is found without looking at all of
them. It is made from the state when that is restored. Timers of one time share a bucket, so that a
time costs one entry of the heap however many keys wait for it. Times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

_NOBODY = object()
SPARE_TIMES = 64
"""Times that nobody waits for any more, which the heap may hold beside as many as there are."""


class TimerIndex:
    """Keys by the time that they wait for.

    Most times have one key, and then the bucket is the key itself: kept keys are never
    dictionaries. A bucket of several is a dictionary, which keeps the order in which they came.
    """

    __slots__ = ("_buckets", "_heap", "_line", "_line_at", "count")

    def __init__(self) -> None:
        self._buckets: dict[int, Any] = {}
        self._heap: list[int] = []
        self._line: list[Any] = []
        self._line_at: int | None = None
        self.count = 0
        """How many timers there are."""

    def fill(self, timers: Iterable[tuple[int, Any]]) -> None:
        """Take many timers at once, in place of those that there were."""
        self._buckets.clear()
        self.count = 0
        for at, key in timers:
            self._put(at, key)
        self._sort()

    def add(self, at: int, key: Any) -> bool:
        """False where there is such a timer already."""
        if at not in self._buckets:
            heappush(self._heap, at)
        return self._put(at, key)

    def timers(self) -> Iterator[tuple[int, Any]]:
        """Every time and key, in no particular order."""
        for at, found in self._buckets.items():
            for key in found if type(found) is dict else (found,):
                yield at, key

    def _put(self, at: int, key: Any) -> bool:
        found = self._buckets.get(at, _NOBODY)
        if found is _NOBODY:
            self._buckets[at] = key
        elif type(found) is dict:
            if key in found:
                return False
            found[key] = None
        elif found is key or found == key:
            return False
        else:
            self._buckets[at] = {found: None, key: None}
        self.count += 1
        return True

    def has(self, at: int, key: Any) -> bool:
        """Whether there is such a timer."""
        found = self._buckets.get(at, _NOBODY)
        if type(found) is dict:
            return key in found
        return found is not _NOBODY and (found is key or bool(found == key))

    def remove(self, at: int, key: Any) -> bool:
        """False where there is no such timer."""
        found = self._buckets.get(at, _NOBODY)
        if type(found) is dict:
            if key not in found:
                return False
            self._drop(at, key, found)
        elif found is not _NOBODY and (found is key or found == key):
            del self._buckets[at]
            self.count -= 1
        else:
            return False
        # The time stays in the heap until it is the first: to look for it there would take long.
        if len(self._heap) > 2 * len(self._buckets) + SPARE_TIMES:
            self._sort()
        return True

    def _drop(self, at: int, key: Any, bucket: dict[Any, None]) -> None:
        del bucket[key]
        if not bucket:
            del self._buckets[at]
        self.count -= 1

    def _sort(self) -> None:
        self._heap[:] = self._buckets
        heapify(self._heap)

    def first(self) -> int | None:
        """The earliest time that anybody waits for."""
        heap, buckets = self._heap, self._buckets
        while heap:
            if heap[0] in buckets:
                return heap[0]
            heappop(heap)
        return None

    def poll(self) -> Any:
        """Take a key out of those that wait for the first time, the one that came first."""
        at = self.first()
        assert at is not None, "there is no timer"
        found = self._buckets[at]
        if type(found) is not dict:
            del self._buckets[at]
            self.count -= 1
            return found
        key = self._next_of(at, found)
        self._drop(at, key, found)
        return key

    def _next_of(self, at: int, bucket: dict[Any, None]) -> Any:
        """The first key of a bucket. Not by iteration: that begins with all that were deleted."""
        while True:
            if self._line_at != at or not self._line:
                self._line_at, self._line = at, list(bucket)
                self._line.reverse()
            key = self._line.pop()
            if key in bucket:
                return key

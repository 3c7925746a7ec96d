"""When something is due at each of many places, of which most move on before they are due.

Places are in buckets by time. A place whose time moves on stays in its bucket, and is put into
another one when that bucket is due: a session that goes on costs nothing here. Everything is done
to whole buckets.

It is memory alone, and is made again from the state after a restore.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mainstay.runtime.windows import Times
from mainstay.state.span_places import Places

_NEVER = (1 << 63) - 1
_NOWHERE = _NEVER
"""The bucket of a place that is in none."""


class DueTimes:
    """Times by place, in buckets of ``width_us``."""

    def __init__(self, width_us: int) -> None:
        self._width = max(1, width_us)
        self._times: Times = np.zeros(0, np.int64)
        self._bucket_of: Times = np.zeros(0, np.int64)
        self._mark = np.zeros(0, np.int32)
        self._buckets: dict[int, list[Places]] = {}
        self._order: list[int] = []

    def set(self, places: Places, times: Times) -> None:
        """Something is due at distinct places."""
        if not len(places):
            return
        self._grow(int(places.max()) + 1)
        self._times[places] = times
        buckets = times // self._width
        is_earlier = buckets < self._bucket_of[places]
        self._enter(places[is_earlier], buckets[is_earlier])

    def forget(self, places: Places) -> None:
        """Nothing is due at some places."""
        self._times[places] = _NEVER

    def first(self) -> int | None:
        """When something is due next."""
        while self._order:
            bucket = self._order[0]
            places = self._settled(bucket)
            if len(places):
                self._buckets[bucket] = [places]
                return int(self._times[places].min())
            self._drop(bucket)
        return None

    def due(self, until: int, rows: int, span_us: int) -> Iterator[tuple[Places, Times]]:
        """The places that are due by a time, in the order of their times. They are forgotten.

        They come in parts of at least ``rows``, if there are as many within ``span_us`` of each
        other. Who is given a part may set others, at least that much later than its first.
        """
        while len(places := self._part(until, rows, span_us)):
            times = self._times[places]
            order = np.argsort(times, kind="stable")
            yield places[order], times[order]

    def _part(self, until: int, rows: int, span_us: int) -> Places:
        """What is due first, of as many buckets as make a part."""
        gathered: list[Places] = [np.zeros(0, np.int64)]
        count, has_more = 0, True
        while has_more and count < rows and self._order and self._order[0] <= until // self._width:
            bucket = self._order[0]
            places = self._settled(bucket)
            if not count and len(places):
                until = min(until, int(self._times[places].min()) + span_us - 1)
            found, has_more = self._taken(bucket, places, until)
            gathered.append(found)
            count += len(found)
        return np.concatenate(gathered)

    def _taken(self, bucket: int, places: Places, until: int) -> tuple[Places, bool]:
        """What is due of the places of a bucket, and whether that is all of it."""
        is_due = self._times[places] <= until
        found, left = places[is_due], places[~is_due]
        self._bucket_of[found] = _NOWHERE
        if len(left):
            self._buckets[bucket] = [left]
        else:
            self._drop(bucket)
        return found, not len(left)

    def _settled(self, bucket: int) -> Places:
        """The places that belong into a bucket; those that have moved on are put where they do."""
        places = np.concatenate(self._buckets[bucket])
        places = self._once(places[self._bucket_of[places] == bucket])
        buckets = self._times[places] // self._width
        moves = buckets != bucket
        if moves.any():
            moved, into = places[moves], buckets[moves]
            self._bucket_of[moved] = _NOWHERE
            meant = self._times[moved] != _NEVER
            self._enter(moved[meant], into[meant])
            places = places[~moves]
        return places

    def _enter(self, places: Places, buckets: Times) -> None:
        self._bucket_of[places] = buckets
        order = np.argsort(buckets, kind="stable")
        places, buckets = places[order], buckets[order]
        edges = np.flatnonzero(np.diff(buckets)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(places)]):
            if end > start:
                self._add(int(buckets[start]), places[start:end])

    def _add(self, bucket: int, places: Places) -> None:
        if bucket not in self._buckets:
            self._buckets[bucket] = []
            heapq.heappush(self._order, bucket)
        self._buckets[bucket].append(places)

    def _once(self, places: Places) -> Places:
        """Each place once: it may have left a bucket and come back."""
        numbers = np.arange(len(places), dtype=np.int32)
        self._mark[places] = numbers
        found: Places = places[self._mark[places] == numbers]
        return found

    def _drop(self, bucket: int) -> None:
        del self._buckets[bucket]
        heapq.heappop(self._order)

    def _grow(self, needed: int) -> None:
        before = len(self._times)
        if needed > before:
            size = max(needed, 2 * before, 64)
            self._times.resize(size, refcheck=False)
            self._bucket_of.resize(size, refcheck=False)
            self._mark.resize(size, refcheck=False)
            self._bucket_of[before:] = _NOWHERE

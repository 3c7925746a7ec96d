"""Which event comes when: ids, kinds and times of events, before any of their other columns.

Events come in positions 1, 2, … . Of every fifty, one is a person, three are auctions and the
others are bids. In order, position and *tick* are the same; with ``group`` above one the ticks are
shuffled within groups of that many positions, always in the same way. The tick decides everything
else: the event's id is the tick plus one, its time is ``first_at`` plus the tick divided by the
rate. So the same events come in another order, and none is later than a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

CYCLE = 50
"""So many events have one person, three auctions and 46 bids, in this order."""

CHUNK_EVENTS = 50_000
"""So many positions are made at once, by random numbers of their own."""

_OFFSETS = {"person": (0, 1), "auction": (1, 4), "bid": (4, CYCLE)}
"""From and up to which offset in its cycle an event is of this kind."""

_SHUFFLE = 953


@dataclass(frozen=True)
class Layout:
    """The events of one kind in the first chunk, by time. Every other chunk has the same shape.

    ``cycles`` and ``offsets`` are the ids divided by :data:`CYCLE`; ``order`` has the place of each
    arrival, or is None where events arrive by time.
    """

    ticks: Integers
    cycles: Integers
    offsets: Integers
    order: Integers | None


def rows_per_chunk(kind: str) -> int:
    first, end = _OFFSETS[kind]
    return (end - first) * CHUNK_EVENTS // CYCLE


@dataclass(frozen=True)
class Timeline:
    """``rate`` is events to a second of event time; ``group`` has to divide a chunk."""

    rate: int = 10_000
    first_at: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)
    group: int = 1

    def __post_init__(self) -> None:
        if self.group < 1 or CHUNK_EVENTS % self.group:
            raise ValueError(f"group={self.group} must divide {CHUNK_EVENTS:,}.")
        if self.rate < 1 or self.first_at.tzinfo is None:
            raise ValueError("rate must be at least 1, and first_at must have a time zone.")

    def at_ms(self, ticks: Integers) -> Integers:
        """The times of ticks, in milliseconds since 1970."""
        return round(self.first_at.timestamp() * 1000) + ticks * 1000 // self.rate

    def layout(self, kind: str) -> Layout:
        ticks = self._ticks()
        arrivals = ticks[self._is(kind, ticks)]
        by_time = np.sort(arrivals)
        cycles, offsets = np.divmod(by_time + 1, CYCLE)
        order = None if self.group == 1 else np.searchsorted(by_time, arrivals)
        return Layout(by_time, cycles, offsets, order)

    def rows(self, kind: str, events: int) -> range:
        """The numbers of the rows of a kind among the first events.

        Position 0 never comes. It would be an auction, so rows of auctions begin at 1.
        """
        chunks, rest = divmod(events + 1, CHUNK_EVENTS)
        partial = int(self._is(kind, self._ticks()[:rest]).sum())
        return range(int(kind == "auction"), chunks * rows_per_chunk(kind) + partial)

    def _ticks(self) -> Integers:
        positions = np.arange(CHUNK_EVENTS, dtype=np.int64)
        return positions // self.group * self.group + positions * _SHUFFLE % self.group

    def _is(self, kind: str, ticks: Integers) -> npt.NDArray[np.bool_]:
        first, end = _OFFSETS[kind]
        offsets = (ticks + 1) % CYCLE
        return (offsets >= first) & (offsets < end)

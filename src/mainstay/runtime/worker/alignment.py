"""Alignment: what a task does with the markers that arrive on its input channels.

``Aligner`` blocks a channel that has delivered the marker until all have (exactly once).
``Tracker`` counts markers and blocks nothing (at least once). Both only decide; the gate blocks
and the task snapshots.

Block the first channel; when the second has the marker, too, broadcast it, snapshot and unblock:

    >>> aligner = Aligner(channels=2)
    >>> aligner.on_marker(0, Epoch(7)).action
    <Action.BLOCK: 'block'>
    >>> aligner.on_marker(1, Epoch(7)).action
    <Action.SNAPSHOT: 'snapshot'>
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from mainstay.runtime.messages import Epoch

MAX_TRACKED = 50
"""Epochs a tracker counts at once; past that the oldest is given up."""


class Action(Enum):
    """What to do about a marker."""

    IGNORE = "ignore"
    BLOCK = "block"
    WAIT = "wait"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The action, and the epoch that this marker made hopeless, if any."""

    action: Action
    abandoned: Epoch | None = None


class MarkerHandler(Protocol):
    """What a task needs of either."""

    def on_marker(self, channel: int, epoch: Epoch) -> Verdict:
        """Take a marker. After SNAPSHOT every channel counts as unblocked again."""

    def overtake(self, epoch: Epoch) -> tuple[Verdict, set[int]]:
        """Wait for no more markers, where that is possible; with it come the channels whose marker
        has arrived."""

    def on_abort(self, epoch: Epoch) -> bool:
        """Forget the epoch and swallow its late markers; True if channels were blocked for it."""


class Aligner:
    """One epoch at a time; a later marker on an unblocked channel subsumes the older epoch."""

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._current: Epoch | None = None
        self._arrived: set[int] = set()
        self._last = Epoch(0)
        self._aborted: set[Epoch] = set()

    def on_marker(self, channel: int, epoch: Epoch) -> Verdict:
        if epoch <= self._last or epoch in self._aborted:
            return Verdict(Action.IGNORE)
        abandoned = None
        if self._current is not None and epoch != self._current:
            if epoch < self._current:
                return Verdict(Action.IGNORE)
            abandoned = self._give_up()
        self._current = epoch
        self._arrived.add(channel)
        if len(self._arrived) < self._channels:
            return Verdict(Action.BLOCK, abandoned)
        self._finish(epoch)
        return Verdict(Action.SNAPSHOT, abandoned)

    def overtake(self, epoch: Epoch) -> tuple[Verdict, set[int]]:
        """Wait for no more markers: a snapshot is due, if it is not taken or given up already.

        With it come the channels that have delivered their markers.
        """
        is_over = epoch <= self._last or epoch in self._aborted
        if is_over or (self._current is not None and epoch < self._current):
            return Verdict(Action.IGNORE), set()
        abandoned, arrived = None, set(self._arrived)
        if self._current is not None and epoch > self._current:
            abandoned, arrived = self._give_up(), set()
        self._finish(epoch)
        return Verdict(Action.SNAPSHOT, abandoned), arrived

    def on_abort(self, epoch: Epoch) -> bool:
        if epoch <= self._last:
            return False
        self._aborted.add(epoch)
        if epoch != self._current:
            return False
        self._give_up()
        return True

    def _give_up(self) -> Epoch | None:
        given_up, self._current = self._current, None
        self._arrived.clear()
        return given_up

    def _finish(self, epoch: Epoch) -> None:
        self._give_up()
        self._last = epoch
        self._aborted = {aborted for aborted in self._aborted if aborted > epoch}


class Tracker:
    """Several epochs at a time, none of which blocks; completing one drops the older ones."""

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._counted: dict[Epoch, set[int]] = {}
        self._last = Epoch(0)
        self._aborted: set[Epoch] = set()

    def on_marker(self, channel: int, epoch: Epoch) -> Verdict:
        if epoch <= self._last or epoch in self._aborted:
            return Verdict(Action.IGNORE)
        counted = self._counted.setdefault(epoch, set())
        counted.add(channel)
        if len(counted) < self._channels:
            return Verdict(Action.WAIT, self._drop_surplus())
        self._last = epoch
        self._counted = {later: seen for later, seen in self._counted.items() if later > epoch}
        self._aborted = {later for later in self._aborted if later > epoch}
        return Verdict(Action.SNAPSHOT)

    def _drop_surplus(self) -> Epoch | None:
        if len(self._counted) <= MAX_TRACKED:
            return None
        oldest = min(self._counted)
        del self._counted[oldest]
        self._aborted.add(oldest)
        return oldest

    def overtake(self, epoch: Epoch) -> tuple[Verdict, set[int]]:
        """Rows are not logged at least once, so that it has to wait for its markers."""
        return Verdict(Action.IGNORE), set()

    def on_abort(self, epoch: Epoch) -> bool:
        if epoch > self._last:
            self._aborted.add(epoch)
            self._counted.pop(epoch, None)
        return False

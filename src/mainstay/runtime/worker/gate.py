"""The gate: the input channels of a task, and which of them it may read.

A channel is ready when it holds something and is not blocked. The gate hands out slices, not
batches: what is left of a batch stays at the head of its channel, so that other channels, and
whatever else the worker has to do, come in between. Credit for a batch is due when its last slice
has been taken, and is given back in sums worth a message: a sender of small batches is owed less
than it has. A blocked channel gives none back because nothing is taken from it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mainstay.errors import ProtocolError
from mainstay.runtime.messages import ChannelId, Element
from mainstay.runtime.worker.credit import Windows

Grant = Callable[[ChannelId, int], None]
Watch = Callable[[int, Element], None]


@dataclass(slots=True, eq=False)
class InputChannel:
    """The receiving end of a channel. ``port`` is which input of the operator it feeds, ``edge``
    what its rows are known by in snapshots."""

    id: ChannelId
    port: int
    edge: str = ""
    queue: deque[Element] = field(default_factory=deque)
    sizes: deque[int] = field(default_factory=deque)
    blocked: bool = False
    ended: bool = False
    expected: int = 0
    owed_bytes: int = 0
    window_bytes: int = 0
    """How many bytes the sender believes it may have in flight."""


class Gate:
    """The input channels of one task, taken from in turn.

    Credit is given back once a quarter of the window is owed. With ``windows`` it is more or less
    than what is owed while a window grows or shrinks.
    """

    def __init__(
        self, channels: list[InputChannel], grant: Grant, windows: Windows | None = None
    ) -> None:
        self.channels = channels
        self._windows = windows or Windows(0, 0, len(channels))
        for channel in channels:
            channel.window_bytes = self._windows.bytes
        self._index = {channel.id: number for number, channel in enumerate(channels)}
        self._grant = grant
        self._ready: deque[int] = deque()
        self._open = Counter(channel.port for channel in channels)
        """How many channels of each input have not ended."""
        self.watch: Watch | None = None
        """Called with everything that comes in, where channels may be logged."""

    def put(self, id: ChannelId, sequence: int, element: Element, size_bytes: int) -> None:
        """Take an element from the transport; a lost or repeated one ends the attempt.

        ``size_bytes`` is granted back to the sender when the element has been consumed.
        """
        number = self._index[id]
        channel = self.channels[number]
        if sequence != channel.expected:
            raise ProtocolError(
                f"channel {id} expected element {channel.expected} and got {sequence}"
            )
        channel.expected += 1
        channel.queue.append(element)
        channel.sizes.append(size_bytes)
        if self.watch is not None:
            self.watch(number, element)
        if len(channel.queue) == 1 and not channel.blocked:
            self._ready.append(number)

    def number_of(self, id: ChannelId) -> int:
        return self._index[id]

    @property
    def rows(self) -> int:
        """How many rows are in line."""
        queued = [element for channel in self.channels for element in channel.queue]
        return sum(each.num_rows for each in queued if isinstance(each, pa.RecordBatch))

    @property
    def is_ready(self) -> bool:
        return bool(self._ready)

    @property
    def has_control(self) -> bool:
        """Whether a marker, a watermark or an end of input is next on some channel."""
        return any(
            not isinstance(self.channels[number].queue[0], pa.RecordBatch) for number in self._ready
        )

    def take(self, max_rows: int, now: float = 0.0) -> tuple[int, Any]:
        """The next slice, marker or end of input, and the number of its channel."""
        number = self._ready.popleft()
        channel = self.channels[number]
        element = channel.queue.popleft()
        if isinstance(element, pa.RecordBatch) and element.num_rows > max_rows:
            channel.queue.appendleft(element.slice(max_rows))
            self._ready.append(number)
            return number, element.slice(0, max_rows)
        size_bytes = channel.sizes.popleft()
        if channel.queue:
            self._ready.append(number)
        channel.owed_bytes += size_bytes
        if size_bytes:
            self._windows.took(size_bytes, now, is_waiting=bool(self._ready))
        # Last, because a sender on this worker may put the next batch in at once.
        self._give_back(channel)
        return number, element

    def _give_back(self, channel: InputChannel) -> None:
        if channel.owed_bytes < max(1, channel.window_bytes // 4):
            return
        owed, channel.owed_bytes = channel.owed_bytes, 0
        granted = max(0, owed + self._windows.bytes - channel.window_bytes)
        channel.window_bytes += granted - owed
        if granted:
            self._grant(channel.id, granted)

    def take_control(self) -> tuple[int, Any] | None:
        """The next thing but a batch that no batch is before, and the number of its channel."""
        for number in self._ready:
            if not isinstance(self.channels[number].queue[0], pa.RecordBatch):
                self._ready.remove(number)
                self._ready.appendleft(number)
                return self.take(1)
        return None

    def block(self, number: int) -> None:
        channel = self.channels[number]
        channel.blocked = True
        if channel.queue:
            self._ready.remove(number)

    def unblock_all(self) -> None:
        for number, channel in enumerate(self.channels):
            if channel.blocked:
                channel.blocked = False
                if channel.queue:
                    self._ready.append(number)

    def end(self, number: int) -> bool:
        """Note the end of input of a channel; True when it was the last one."""
        channel = self.channels[number]
        self._open[channel.port] -= not channel.ended
        channel.ended = True
        return not any(self._open.values())

    def has_ended(self, port: int) -> bool:
        """Whether all channels of an input have."""
        return not self._open[port]

    def check_invariants(self) -> None:
        ready = {n for n, c in enumerate(self.channels) if c.queue and not c.blocked}
        assert ready == set(self._ready), f"ready {set(self._ready)} should be {ready}"
        assert len(ready) == len(self._ready), "a channel is listed as ready twice"

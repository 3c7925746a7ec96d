"""Outputs: the sending ends of a task's channels, with their credit.

A batch that has no credit waits in line; a task with anything in line does not run, which is how
backpressure travels. Markers, watermarks and the end of input cost nothing and never stop a
task, but keep their place in line. Small batches are gathered and sent together when there are
enough, when the worker is idle, or when some milliseconds have passed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

import pyarrow as pa

from mainstay.runtime.messages import ChannelId, Element, EndOfInput, Epoch, Marker, TimeMark
from mainstay.runtime.worker.lines import Lines
from mainstay.schema.sizes import joined

WEIGHT = 0.3
"""What the last slice counts for in how many rows are emitted for one."""

SHRINKING = 0.75
"""What is sent at a time of what was granted last, so that it follows a window that shrinks."""

Control: TypeAlias = "Marker | EndOfInput | TimeMark"
"""What costs no credit."""

Announce = Callable[[ChannelId, Epoch, int], None]
"""Say how many elements of a channel had been sent when its sender cut for an epoch."""

Transmit = Callable[[ChannelId, int, Element, int], None]
"""Send an element: channel, sequence number, element, and the bytes of credit it costs."""


class Partitioner(Protocol):
    """Decides which channel of an output gets which rows."""

    is_shared_out: bool
    """Whether a batch is divided among the channels, so that each gets a part of it."""

    def split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """Pairs of a channel's number and what it gets."""


class OutputChannel:
    """The sending end of one channel."""

    def __init__(
        self,
        id: ChannelId,
        credit_bytes: int,
        transmit: Transmit,
        announce: Announce | None = None,
    ) -> None:
        self.id = id
        self._announce = announce
        self.credit_bytes = credit_bytes
        self._transmit = transmit
        self._sequence = 0
        self._waiting: deque[Element] = deque()
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._row_bytes = 0.0
        self._granted_bytes = credit_bytes
        self._lines, self._number = Lines(), 0

    def line_up(self, lines: Lines, number: int) -> None:
        """Tell an output from now on what is held back here, by the number it has there."""
        self._lines, self._number = lines, number

    @property
    def slice_rows(self) -> float:
        """How many rows may be sent at a time, going by those sent last: what there is credit for,
        and about as much as came back last. Credit comes back a quarter of the window at a time."""
        worth = max(self.credit_bytes, SHRINKING * self._granted_bytes)
        return worth / self._row_bytes if self._row_bytes else math.inf

    @property
    def may_be_overtaken(self) -> bool:
        return self._announce is not None

    @property
    def has_room(self) -> bool:
        return not self._waiting

    def gather(self, batch: pa.RecordBatch, enough_rows: int) -> None:
        if not self._row_bytes:
            self._row_bytes = batch.nbytes / max(1, batch.num_rows)
            self._lines.has_moved = True
        self._gathered.append(batch)
        self._lines.gathering.add(self._number)
        self._gathered_rows += batch.num_rows
        if self._gathered_rows >= min(enough_rows, self.slice_rows):
            self.flush()

    def flush(self) -> bool:
        """Send what was gathered as one batch; True if there was anything."""
        if not self._gathered:
            return False
        gathered, self._gathered, self._gathered_rows = self._gathered, [], 0
        self._lines.gathering.discard(self._number)
        for batch in joined(gathered):
            self._enqueue(batch)
        return True

    def send_control(self, element: Control) -> None:
        self.flush()
        self._enqueue(element)

    @property
    def has_markers_waiting(self) -> bool:
        return any(isinstance(element, Marker) for element in self._waiting)

    def overtake(self, epoch: Epoch) -> list[pa.RecordBatch]:
        """Send the marker of an epoch before the rows it stands in line behind; returns those."""
        marker = Marker(epoch)
        if self._announce is None or marker not in self._waiting:
            return []
        position = self._waiting.index(marker)
        before = [self._waiting[n] for n in range(position)]
        del self._waiting[position]
        self._note_line(was_waiting=True)
        self._announce(self.id, epoch, self._sequence)
        return [element for element in before if isinstance(element, pa.RecordBatch)]

    def grant(self, size_bytes: int) -> None:
        self.credit_bytes += size_bytes
        self._granted_bytes = size_bytes
        self._lines.has_moved = True
        was_waiting = bool(self._waiting)
        while self._waiting and self._may_send(self._waiting[0]):
            self._send(self._waiting.popleft())
        self._note_line(was_waiting=was_waiting)

    def _enqueue(self, element: Element) -> None:
        was_waiting = bool(self._waiting)
        if was_waiting or not self._may_send(element):
            self._waiting.append(element)
            self._note_line(was_waiting=was_waiting)
        else:
            self._send(element)

    def _note_line(self, *, was_waiting: bool) -> None:
        self._lines.waiting += bool(self._waiting) - was_waiting

    def _may_send(self, element: Element) -> bool:
        # One batch may overdraw the credit; otherwise a batch above the window could never pass.
        return self.credit_bytes > 0 or not isinstance(element, pa.RecordBatch)

    def _send(self, element: Element) -> None:
        size_bytes = 0
        if isinstance(element, pa.RecordBatch):
            size_bytes = element.nbytes
            self._row_bytes = size_bytes / max(1, element.num_rows)
            self._lines.has_moved = True
        self.credit_bytes -= size_bytes
        sequence = self._sequence
        self._sequence += 1
        self._transmit(self.id, sequence, element, size_bytes)


class Output:
    """One edge of the graph as seen by the sending subtask.

    ``sender`` is the place in the chain of the operator whose rows it carries.
    """

    def __init__(
        self,
        partitioner: Partitioner,
        channels: list[OutputChannel],
        enough_rows: int,
        sender: int = 0,
    ) -> None:
        self.sender = sender
        self._partitioner = partitioner
        self._enough_rows = enough_rows
        self.channels = channels
        self._emitted_rows = 0
        self._rows_each = 1.0
        self._lines = Lines()
        for number, channel in enumerate(channels):
            channel.line_up(self._lines, number)
        self._least_rows = math.inf
        self.may_be_overtaken = any(channel.may_be_overtaken for channel in channels)

    @property
    def has_room(self) -> bool:
        return not self._lines.waiting

    @property
    def slice_rows(self) -> float:
        """How many rows the task may take at a time, by what it emits for each."""
        if self._lines.has_moved:
            self._lines.has_moved = False
            self._least_rows = min(channel.slice_rows for channel in self.channels)
        shares = len(self.channels) if self._partitioner.is_shared_out else 1
        emitted = shares * self._least_rows
        return emitted / self._rows_each if self._rows_each else math.inf

    def took(self, rows: int) -> None:
        """Updates the ratio of emitted to taken rows after a slice."""
        each, self._emitted_rows = self._emitted_rows / rows, 0
        self._rows_each += WEIGHT * (each - self._rows_each)

    def emit(self, batch: pa.RecordBatch) -> None:
        self._emitted_rows += batch.num_rows
        for number, part in self._partitioner.split(batch):
            self.channels[number].gather(part, self._enough_rows)

    def send_control(self, element: Control) -> None:
        for channel in self.channels:
            channel.send_control(element)

    def flush(self) -> bool:
        return sum(self.channels[number].flush() for number in sorted(self._lines.gathering)) > 0

    def check_invariants(self) -> None:
        waiting = sum(not channel.has_room for channel in self.channels)
        assert waiting == self._lines.waiting, f"{self._lines.waiting} lines should be {waiting}"

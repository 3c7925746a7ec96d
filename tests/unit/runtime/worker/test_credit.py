"""Both ends of a channel with Arrow IPC between them, as between two processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mainstay.runtime.messages import ChannelId, Epoch, Marker
from mainstay.runtime.worker.gate import Gate, InputChannel
from mainstay.runtime.worker.output import OutputChannel

ID = ChannelId(7)
Batch = Callable[..., pa.RecordBatch]


def serialised(element: Any) -> Any:
    """What the other process gets."""
    if not isinstance(element, pa.RecordBatch):
        return element
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, element.schema) as writer:
        writer.write_batch(element)
    return pa.ipc.open_stream(stream.getvalue()).read_next_batch()


class Link:
    """A sender and a receiver; ``grant`` of the receiver reaches the sender at once."""

    def __init__(self, window_bytes: int) -> None:
        self.window_bytes = window_bytes
        self.received: list[int] = []
        self.sender = OutputChannel(ID, window_bytes, self._transmit)
        self.gate = Gate([InputChannel(ID, port=0)], lambda _, size: self.sender.grant(size))

    def _transmit(self, id: ChannelId, sequence: int, element: Any, size_bytes: int) -> None:
        self.gate.put(id, sequence, serialised(element), size_bytes)

    def send(self, batch: pa.RecordBatch) -> None:
        self.sender.gather(batch, enough_rows=1)

    def receive(self, max_rows: int = 1000) -> None:
        while self.gate.is_ready:
            _, element = self.gate.take(max_rows)
            if isinstance(element, pa.RecordBatch):
                self.received.extend(element.column(0).to_pylist())


@pytest.fixture
def parts() -> list[pa.RecordBatch]:
    """Slices of a column with one null; those without it lose their validity bits on the wire."""
    column = pa.array([None, *range(1, 4000)], pa.int64())
    whole = pa.record_batch([column], names=["n"])
    parts = [whole.slice(start, 40) for start in range(40, 4000, 40)]
    assert all(serialised(part).nbytes < part.nbytes for part in parts), "they do not shrink"
    return parts


@pytest.mark.parametrize("max_rows", [1000, 7])
def test_a_sender_whose_batches_shrink_on_the_wire_loses_no_credit(
    parts: list[pa.RecordBatch], max_rows: int
) -> None:
    link = Link(window_bytes=parts[0].nbytes)
    for part in parts:
        link.send(part)
        link.receive(max_rows)
        assert link.sender.credit_bytes == link.window_bytes
    assert link.received == list(range(40, 4000))


def test_a_line_of_batches_that_shrink_on_the_wire_is_sent_to_its_end(
    parts: list[pa.RecordBatch],
) -> None:
    link = Link(window_bytes=1)
    for part in parts:
        link.send(part)
    assert not link.sender.has_room
    link.receive()
    assert link.received == list(range(40, 4000))
    assert link.sender.has_room
    assert link.sender.credit_bytes == link.window_bytes


def test_control_elements_between_batches_change_no_credit(numbers: Batch) -> None:
    link = Link(window_bytes=8)
    link.send(numbers(1))
    link.sender.send_control(Marker(Epoch(1)))
    link.send(numbers(2))
    link.receive()
    assert link.received == [1, 2]
    assert link.sender.credit_bytes == 8

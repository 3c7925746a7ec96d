"""The contract of a channel: in order, nothing lost or doubled, and never more than its credit.

One suite over every wire there is (``wires.py``): both ends are the real ones, an ``OutputChannel``
and a ``Gate``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import ProtocolError
from mainstay.runtime.messages import (
    ChannelId,
    Credit,
    Data,
    Element,
    EndOfInput,
    Epoch,
    Marker,
    TimeMark,
)
from mainstay.runtime.worker.credit import Windows
from mainstay.runtime.worker.gate import Gate, InputChannel
from mainstay.runtime.worker.output import OutputChannel
from tests.contract.wires import ONE, WIRES, Connect

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("parts", pa.list_(pa.int32()))])
WINDOW_BYTES = 4096
MANY_ROWS = 1 << 20


def batch_of(first: int, rows: int) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    texts = [None if n % 7 == 0 else "x" * (n % 5) for n in numbers]
    columns = [list(numbers), texts, [[n] * (n % 3) for n in numbers]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


class Sender:
    """The end at the task that emits rows."""

    released = False

    def __init__(self) -> None:
        self.channels: dict[ChannelId, OutputChannel] = {}
        self.heard = 0

    def receive(self, message: Credit) -> None:
        self.heard += 1
        self.channels[message.channel].grant(message.size_bytes)

    def step(self) -> bool:
        return False


class Receiver:
    """The end at the task that takes them."""

    released = False

    def __init__(self) -> None:
        self.gate: Gate
        self.heard = 0
        self.most_bytes = 0

    def receive(self, message: Data) -> None:
        self.heard += 1
        self.gate.put(message.channel, message.sequence, message.element, message.size_bytes)
        queued = sum(sum(channel.sizes) for channel in self.gate.channels)
        self.most_bytes = max(self.most_bytes, queued)

    def step(self) -> bool:
        return False


class Line:
    """Channels from one task to another, over a wire."""

    def __init__(self, connect: Connect, closing: ExitStack, channels: int) -> None:
        self.sender, self.receiver = Sender(), Receiver()
        self._wire = connect([self.sender, self.receiver], SCHEMA, closing)
        self._sent = self._granted = 0
        ids = [ChannelId(number) for number in range(channels)]
        inputs = [InputChannel(id, 0) for id in ids]
        windows = Windows(WINDOW_BYTES, WINDOW_BYTES, channels)
        self.receiver.gate = self.gate = Gate(inputs, self._grant, windows)
        self.out = [OutputChannel(id, WINDOW_BYTES, self._transmit) for id in ids]
        self.sender.channels = dict(zip(ids, self.out, strict=True))

    def _transmit(self, id: ChannelId, sequence: int, element: Element, size_bytes: int) -> None:
        self._sent += 1
        self._wire.send(1, Data(ONE, id, sequence, element, size_bytes))

    def _grant(self, id: ChannelId, size_bytes: int) -> None:
        self._granted += 1
        self._wire.send(0, Credit(ONE, id, size_bytes))

    def settle(self) -> None:
        """Deliver all that is under way, in both directions."""
        while (self.receiver.heard, self.sender.heard) != (self._sent, self._granted):
            self._wire.deliver()
        self.gate.check_invariants()

    def send(self, batch: pa.RecordBatch, channel: int = 0) -> None:
        self.out[channel].gather(batch, enough_rows=1)

    def take(self, max_rows: int = MANY_ROWS) -> tuple[int, Any] | None:
        """The next thing that arrives, and its channel; None if there is nothing."""
        self.settle()
        return self.gate.take(max_rows) if self.gate.is_ready else None

    def take_all(self, max_rows: int = MANY_ROWS) -> list[tuple[int, Any]]:
        taken = []
        while (found := self.take(max_rows)) is not None:
            taken.append(found)
        return taken


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=WIRES)
def line(request: pytest.FixtureRequest, closing: ExitStack) -> Callable[..., Line]:
    def lay(channels: int = 1) -> Line:
        return Line(WIRES[request.param], closing, channels)

    return lay


def flat(taken: list[tuple[int, Any]], channel: int = 0) -> list[Any]:
    """What came on a channel: rows one by one, and all else between them."""
    found: list[Any] = []
    for number, element in taken:
        if number == channel:
            is_batch = isinstance(element, pa.RecordBatch)
            found += [tuple(row.values()) for row in element.to_pylist()] if is_batch else [element]
    return found


def rows(*batches: pa.RecordBatch) -> list[Any]:
    return flat([(0, batch) for batch in batches])


# ---------------------------------------------------------------- order


@pytest.mark.parametrize("seed", range(4))
def test_everything_arrives_once_and_in_order(line: Callable[..., Line], seed: int) -> None:
    chance, lane = Random(seed), line(2)
    sent: list[list[Any]] = [[], []]
    taken: list[tuple[int, Any]] = []
    for step in range(200):
        number = chance.randrange(2)
        channel = lane.out[number]
        if chance.random() < 0.2:
            control = chance.choice([Marker(Epoch(step)), TimeMark(step), TimeMark(None, True)])
            channel.send_control(control)
            sent[number].append(control)
        elif channel.has_room:
            batch = batch_of(1000 * step, chance.randrange(1, 60))
            lane.send(batch, number)
            sent[number] += rows(batch)
        if chance.random() < 0.5 and (found := lane.take(chance.randrange(1, 40))) is not None:
            taken.append(found)
    taken += lane.take_all()
    for number in range(2):
        assert flat(taken, number) == sent[number]


def test_rows_are_what_they_were_whatever_part_of_a_batch_they_are(
    line: Callable[..., Line],
) -> None:
    lane, whole = line(), batch_of(0, 50)
    parts = [whole.slice(3, 1), whole.slice(7, 20), whole.slice(49)]
    for part in parts:
        lane.send(part)
    assert flat(lane.take_all()) == rows(*parts)


# ---------------------------------------------------------------- control elements


def test_markers_watermarks_and_the_end_keep_their_place_in_line(
    line: Callable[..., Line],
) -> None:
    lane = line()
    expected: list[Any] = []
    for number in range(30):
        # Most of it has no credit, and waits in line.
        batch, control = batch_of(100 * number, 20), Marker(Epoch(number))
        lane.send(batch)
        lane.out[0].send_control(control)
        expected += [*rows(batch), control]
    lane.out[0].send_control(TimeMark(5))
    lane.out[0].send_control(EndOfInput())
    assert not lane.out[0].has_room
    assert flat(lane.take_all(7)) == [*expected, TimeMark(5), EndOfInput()]


def test_a_marker_passes_without_credit_where_no_rows_are_before_it(
    line: Callable[..., Line],
) -> None:
    lane = line()
    lane.send(batch_of(0, 1000))
    assert lane.out[0].credit_bytes < 0
    lane.out[0].send_control(Marker(Epoch(1)))
    assert lane.out[0].has_room
    assert flat(lane.take_all())[-1] == Marker(Epoch(1))


def test_the_end_of_input_comes_after_all_rows_and_markers_after_it(
    line: Callable[..., Line],
) -> None:
    lane, batch = line(), batch_of(0, 300)
    lane.send(batch)
    lane.out[0].gather(batch, enough_rows=MANY_ROWS)
    for control in (EndOfInput(), Marker(Epoch(1)), Marker(Epoch(2))):
        lane.out[0].send_control(control)
    last = [EndOfInput(), Marker(Epoch(1)), Marker(Epoch(2))]
    assert flat(lane.take_all(11)) == [*rows(batch, batch), *last]


# ---------------------------------------------------------------- credit


def test_no_more_is_in_line_than_there_is_credit_for_and_one_batch(
    line: Callable[..., Line],
) -> None:
    lane = line()
    largest, sent = 0, 0
    while sent < 4_000:
        if lane.out[0].has_room:
            batch = batch_of(sent, 1 + sent % 50)
            largest, sent = max(largest, batch.nbytes), sent + batch.num_rows
            lane.send(batch)
        else:
            lane.take(20)
    lane.take_all()
    assert WINDOW_BYTES / 2 < lane.receiver.most_bytes <= WINDOW_BYTES + largest


def test_a_sender_waits_until_its_rows_are_taken(line: Callable[..., Line]) -> None:
    lane, number = line(), 0
    while lane.out[0].has_room:
        lane.send(batch_of(100 * number, 20))
        number += 1
    lane.settle()
    assert not lane.out[0].has_room
    found = rows(*(element for _, element in lane.take_all()))
    assert lane.out[0].has_room
    assert len(found) == 20 * number


def test_all_credit_comes_back_but_for_what_is_not_worth_a_message(
    line: Callable[..., Line],
) -> None:
    lane = line()
    for number in range(500):
        lane.send(batch_of(10 * number, 10))
        lane.take()
    lane.settle()
    assert WINDOW_BYTES * 3 / 4 <= lane.out[0].credit_bytes <= WINDOW_BYTES


def test_a_channel_without_credit_does_not_hold_up_another(line: Callable[..., Line]) -> None:
    lane = line(2)
    while lane.out[0].has_room:
        lane.send(batch_of(0, 20), 0)
    lane.settle()
    lane.gate.block(0)
    batch = batch_of(0, 20)
    lane.send(batch, 1)
    assert flat(lane.take_all(), 1) == rows(batch)
    assert not lane.out[0].has_room


# ---------------------------------------------------------------- size, and what goes wrong


def test_a_batch_above_the_window_passes_whole(line: Callable[..., Line]) -> None:
    lane, large = line(), batch_of(0, 200_000)
    assert large.nbytes > 1000 * WINDOW_BYTES
    small = batch_of(0, 3)
    for batch in (large, small):
        lane.send(batch)
    taken = [element for _, element in lane.take_all(50_000)]
    assert [element.num_rows for element in taken] == [50_000] * 4 + [3]
    whole = pa.Table.from_batches(taken[:4]).combine_chunks().to_batches()[0]
    assert whole.equals(large)
    assert taken[4].equals(small)


@pytest.mark.parametrize("sequence", [0, 2])
def test_an_element_that_is_lost_or_comes_twice_is_noticed(
    line: Callable[..., Line], sequence: int
) -> None:
    lane = line()
    lane.send(batch_of(0, 3))
    lane.settle()
    with pytest.raises(ProtocolError, match=f"expected element 1 and got {sequence}"):
        lane.gate.put(ChannelId(0), sequence, batch_of(3, 3), 0)

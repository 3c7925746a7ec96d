from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mainstay.runtime.messages import ChannelId, EndOfInput, Epoch, Marker
from mainstay.runtime.worker.output import SHRINKING, Output, OutputChannel
from mainstay.runtime.worker.partition import ToEach

Batch = Callable[..., pa.RecordBatch]

ROW_BYTES = 8
MARKER = Marker(Epoch(1))


class Wire(list[tuple[int, int, Any]]):
    """What was sent: channel, sequence, and the rows or the control element; and at what price."""

    def __init__(self) -> None:
        super().__init__()
        self.prices: list[int] = []

    def __call__(self, channel: ChannelId, sequence: int, element: Any, size_bytes: int) -> None:
        shown = element.column(0).to_pylist() if isinstance(element, pa.RecordBatch) else element
        self.append((channel, sequence, shown))
        self.prices.append(size_bytes)

    @property
    def elements(self) -> list[Any]:
        return [element for _, _, element in self]


@pytest.fixture
def wire() -> Wire:
    return Wire()


def channel_of(wire: Wire, rows: int, id: int = 7) -> OutputChannel:
    """A channel with credit for so many rows."""
    return OutputChannel(ChannelId(id), rows * ROW_BYTES, wire)


def send(channel: OutputChannel, *batches: pa.RecordBatch) -> None:
    for batch in batches:
        channel.gather(batch, enough_rows=1)


def test_elements_are_numbered_from_zero(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 100)
    send(channel, numbers(1), numbers(2))
    channel.send_control(MARKER)
    assert wire == [(7, 0, [1]), (7, 1, [2]), (7, 2, MARKER)]


def test_credit_is_used_up_by_the_bytes_that_are_sent(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 10)
    send(channel, numbers(1, 2, 3))
    assert channel.credit_bytes == 7 * ROW_BYTES
    channel.grant(3 * ROW_BYTES)
    assert channel.credit_bytes == 10 * ROW_BYTES


def test_the_receiver_is_told_the_price_of_every_element(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 2)
    send(channel, numbers(1, 2, 3), numbers(4))
    channel.send_control(MARKER)
    channel.grant(3 * ROW_BYTES)
    assert wire.elements == [[1, 2, 3], [4], MARKER]
    assert wire.prices == [3 * ROW_BYTES, ROW_BYTES, 0]


def test_one_batch_may_overdraw_the_credit(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 1)
    send(channel, numbers(1, 2, 3))
    assert wire.elements == [[1, 2, 3]]
    assert channel.credit_bytes == -2 * ROW_BYTES
    assert channel.has_room


def test_after_an_overdraft_the_next_batch_waits_in_line(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 1)
    send(channel, numbers(1, 2, 3), numbers(4))
    assert wire.elements == [[1, 2, 3]]
    assert not channel.has_room


def test_what_waits_goes_only_when_the_whole_overdraft_is_paid_back(
    wire: Wire, numbers: Batch
) -> None:
    channel = channel_of(wire, 1)
    send(channel, numbers(1, 2, 3), numbers(4))
    channel.grant(2 * ROW_BYTES)
    assert wire.elements == [[1, 2, 3]]
    channel.grant(1)
    assert wire.elements == [[1, 2, 3], [4]]
    assert channel.has_room


def test_a_grant_releases_as_much_of_the_line_as_it_pays_for(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 1)
    send(channel, numbers(0), numbers(1), numbers(2), numbers(3))
    assert wire.elements == [[0]]
    channel.grant(2 * ROW_BYTES)
    assert wire.elements == [[0], [1], [2]]
    assert not channel.has_room


def test_markers_cost_nothing_and_pass_without_credit(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 1)
    send(channel, numbers(1))
    assert channel.credit_bytes == 0
    channel.send_control(MARKER)
    channel.send_control(EndOfInput())
    assert wire.elements == [[1], MARKER, EndOfInput()]
    assert channel.credit_bytes == 0
    assert channel.has_room


def test_a_marker_keeps_its_place_in_line(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 1)
    send(channel, numbers(1), numbers(2))
    channel.send_control(MARKER)
    send(channel, numbers(3))
    assert wire.elements == [[1]]
    channel.grant(ROW_BYTES)
    assert wire.elements == [[1], [2], MARKER]
    channel.grant(ROW_BYTES)
    assert wire.elements == [[1], [2], MARKER, [3]]
    assert [sequence for _, sequence, _ in wire] == [0, 1, 2, 3]


def test_small_batches_are_gathered_until_there_are_enough_rows(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 100)
    channel.gather(numbers(1), enough_rows=3)
    channel.gather(numbers(2), enough_rows=3)
    assert wire == []
    channel.gather(numbers(3), enough_rows=3)
    assert wire.elements == [[1, 2, 3]]


def test_a_flush_sends_what_was_gathered_once(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 100)
    channel.gather(numbers(1), enough_rows=10)
    channel.gather(numbers(2), enough_rows=10)
    assert channel.flush() is True
    assert channel.flush() is False
    assert wire.elements == [[1, 2]]


def test_what_was_gathered_before_a_marker_is_sent_before_it(wire: Wire, numbers: Batch) -> None:
    channel = channel_of(wire, 100)
    channel.gather(numbers(1), enough_rows=10)
    channel.send_control(MARKER)
    assert wire.elements == [[1], MARKER]


def test_an_output_has_room_while_all_its_channels_have(wire: Wire, numbers: Batch) -> None:
    channels = [channel_of(wire, 1, id=1), channel_of(wire, 100, id=2)]
    output = Output(ToEach(2), channels, enough_rows=1)
    rooms = []
    for value in (1, 2):
        output.emit(numbers(value))
        rooms.append(output.has_room)
    channels[0].grant(ROW_BYTES)
    assert [*rooms, output.has_room] == [True, False, True]


def test_an_output_sends_control_elements_on_every_channel(wire: Wire) -> None:
    output = Output(ToEach(2), [channel_of(wire, 1, id=1), channel_of(wire, 1, id=2)], 1)
    output.send_control(MARKER)
    assert wire == [(1, 0, MARKER), (2, 0, MARKER)]


def test_an_output_flushes_every_channel(wire: Wire, numbers: Batch) -> None:
    output = Output(ToEach(2), [channel_of(wire, 9, id=1), channel_of(wire, 9, id=2)], 10)
    assert output.flush() is False
    output.emit(numbers(1))
    assert output.flush() is True
    assert wire == [(1, 0, [1]), (2, 0, [1])]


def test_slices_are_what_there_is_credit_for(wire: Wire, numbers: Batch) -> None:
    channels = [channel_of(wire, 100, id=1), channel_of(wire, 40, id=2)]
    output = Output(ToEach(2), channels, enough_rows=1)
    assert output.slice_rows == math.inf, "nothing is known of rows before the first"
    output.emit(numbers(*range(20)))
    for channel in channels:
        channel.grant(5 * ROW_BYTES)
    # Each channel got all of them: the one with less credit has room for 25 more.
    assert output.slice_rows == 25
    output.emit(numbers(*range(24)))
    assert output.slice_rows == pytest.approx(SHRINKING * 5), "by what is granted at a time"


def test_slices_are_counted_in_rows_that_are_taken(wire: Wire, numbers: Batch) -> None:
    output = Output(ToEach(1), [channel_of(wire, 1000)], enough_rows=1)
    for _ in range(30):
        output.emit(numbers(1, 2, 3, 4))
        output.took(1)
    assert output.slice_rows == pytest.approx((1000 - 120) / 4, rel=0.2)
    for _ in range(30):
        output.took(100)
    assert output.slice_rows > 1e6, "next to nothing is emitted for a row"

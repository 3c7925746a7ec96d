from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import ProtocolError
from mainstay.runtime.messages import ChannelId, EndOfInput, Epoch, Marker
from mainstay.runtime.worker.credit import WORTH_S, Windows
from mainstay.runtime.worker.gate import Gate, InputChannel

Batch = Callable[..., pa.RecordBatch]


class Grants(list[tuple[int, int]]):
    def __call__(self, channel: ChannelId, size_bytes: int) -> None:
        self.append((channel, size_bytes))


def gate_of(*ids: int) -> tuple[Gate, Grants]:
    grants = Grants()
    return Gate([InputChannel(ChannelId(id), port=0) for id in ids], grants), grants


def put(gate: Gate, id: ChannelId, sequence: int, element: Any) -> None:
    """Put an element in at the size it has here."""
    size_bytes = element.nbytes if isinstance(element, pa.RecordBatch) else 0
    gate.put(id, sequence, element, size_bytes)


def values(element: Any) -> list[int]:
    found: list[int] = element.column(0).to_pylist()
    return found


def taken(gate: Gate, max_rows: int = 1000) -> list[tuple[int, list[int]]]:
    found = []
    while gate.is_ready:
        number, element = gate.take(max_rows)
        found.append((number, values(element)))
        gate.check_invariants()
    return found


def test_an_empty_gate_is_not_ready() -> None:
    gate, _ = gate_of(4, 5)
    assert not gate.is_ready


def test_channels_are_taken_from_in_turn(numbers: Batch) -> None:
    gate, _ = gate_of(4, 5)
    for sequence, value in enumerate((1, 2, 3)):
        put(gate, ChannelId(4), sequence, numbers(value))
    put(gate, ChannelId(5), 0, numbers(10))
    assert taken(gate) == [(0, [1]), (1, [10]), (0, [2]), (0, [3])]


def test_a_large_batch_comes_in_slices_between_which_other_channels_come(numbers: Batch) -> None:
    gate, _ = gate_of(4, 5)
    put(gate, ChannelId(4), 0, numbers(1, 2, 3, 4, 5))
    put(gate, ChannelId(5), 0, numbers(10))
    assert taken(gate, 2) == [(0, [1, 2]), (1, [10]), (0, [3, 4]), (0, [5])]


def test_credit_for_a_batch_comes_back_whole_with_its_last_slice(numbers: Batch) -> None:
    gate, grants = gate_of(4)
    batch = numbers(1, 2, 3, 4, 5)
    put(gate, ChannelId(4), 0, batch)
    gate.take(2)
    gate.take(2)
    assert grants == []
    gate.take(2)
    assert grants == [(4, batch.nbytes)]


def test_credit_is_what_the_sender_paid_whatever_the_size_is_here(numbers: Batch) -> None:
    gate, grants = gate_of(4, 5)
    gate.put(ChannelId(4), 0, numbers(1, 2, 3), 1000)
    gate.put(ChannelId(5), 0, numbers(1, 2, 3), 1)
    taken(gate, 2)
    assert sorted(grants) == [(4, 1000), (5, 1)]


def test_a_batch_that_cost_nothing_gives_nothing_back(numbers: Batch) -> None:
    gate, grants = gate_of(4)
    gate.put(ChannelId(4), 0, numbers(1), 0)
    gate.put(ChannelId(4), 1, numbers(2), 16)
    assert taken(gate) == [(0, [1]), (0, [2])]
    assert grants == [(4, 16)]


def test_markers_and_ends_give_no_credit(numbers: Batch) -> None:
    gate, grants = gate_of(4)
    put(gate, ChannelId(4), 0, Marker(Epoch(1)))
    put(gate, ChannelId(4), 1, EndOfInput())
    assert gate.take(10) == (0, Marker(Epoch(1)))
    assert gate.take(10) == (0, EndOfInput())
    assert grants == []


def test_a_blocked_channel_is_not_ready_whatever_arrives(numbers: Batch) -> None:
    gate, grants = gate_of(4, 5)
    put(gate, ChannelId(4), 0, Marker(Epoch(1)))
    put(gate, ChannelId(4), 1, numbers(1))
    number, _ = gate.take(10)
    gate.block(number)
    put(gate, ChannelId(4), 2, numbers(2))
    gate.check_invariants()
    assert not gate.is_ready
    assert grants == []


def test_unblocking_makes_what_waited_ready_in_its_order(numbers: Batch) -> None:
    gate, _ = gate_of(4, 5)
    put(gate, ChannelId(4), 0, Marker(Epoch(1)))
    gate.take(10)
    gate.block(0)
    put(gate, ChannelId(4), 1, numbers(1))
    put(gate, ChannelId(4), 2, numbers(2))
    gate.unblock_all()
    gate.check_invariants()
    assert taken(gate) == [(0, [1]), (0, [2])]


def test_unblocking_a_channel_that_is_not_blocked_lists_it_once(numbers: Batch) -> None:
    gate, _ = gate_of(4)
    put(gate, ChannelId(4), 0, numbers(1))
    gate.unblock_all()
    gate.check_invariants()
    assert taken(gate) == [(0, [1])]


def test_a_gap_in_the_sequence_is_an_error_that_names_the_channel(numbers: Batch) -> None:
    gate, _ = gate_of(4)
    put(gate, ChannelId(4), 0, numbers(1))
    with pytest.raises(ProtocolError, match="channel 4 expected element 1 and got 2"):
        put(gate, ChannelId(4), 2, numbers(3))


def test_a_repeated_element_is_an_error(numbers: Batch) -> None:
    gate, _ = gate_of(4)
    put(gate, ChannelId(4), 0, numbers(1))
    with pytest.raises(ProtocolError, match="channel 4 expected element 1 and got 0"):
        put(gate, ChannelId(4), 0, numbers(1))


def test_sequences_are_counted_per_channel(numbers: Batch) -> None:
    gate, _ = gate_of(4, 5)
    put(gate, ChannelId(4), 0, numbers(1))
    put(gate, ChannelId(5), 0, numbers(2))
    put(gate, ChannelId(4), 1, numbers(3))
    assert taken(gate) == [(0, [1]), (1, [2]), (0, [3])]


def test_the_input_has_ended_when_every_channel_has() -> None:
    gate, _ = gate_of(4, 5, 6)
    assert [gate.end(1), gate.end(0), gate.end(2)] == [False, False, True]


def test_credit_is_given_back_in_sums_worth_a_message() -> None:
    grants: list[tuple[ChannelId, int]] = []
    channel = ChannelId(1)
    gate = Gate(
        [InputChannel(channel, port=0)], lambda *grant: grants.append(grant), Windows(400, 400, 1)
    )
    for sequence, size_bytes in enumerate([60, 39, 1, 250, 10]):
        gate.put(channel, sequence, Marker(Epoch(sequence)), size_bytes)
        gate.take(10)
    assert grants == [(channel, 100), (channel, 250)]


def test_the_window_follows_the_rate_at_which_rows_are_taken(numbers: Batch) -> None:
    channel = ChannelId(0)
    grants: list[int] = []
    windows = Windows(1 << 20, 1 << 10, 1)
    gate = Gate([InputChannel(channel, port=0)], lambda _, size: grants.append(size), windows)
    sent, size, now = 0, 10_000, 0.0

    def pass_on(seconds_each: float, times: int) -> None:
        nonlocal sent, now
        for _ in range(times):
            now += seconds_each
            gate.put(channel, sent, numbers(1), size)
            sent += 1
            gate.take(100, now)

    pass_on(0.1, 200)  # a slow task: 100 kB/s
    slow = gate.channels[0].window_bytes
    assert slow == pytest.approx(100_000 * WORTH_S, rel=0.1)
    pass_on(0.01, 1000)  # ten times as fast
    fast = gate.channels[0].window_bytes
    assert fast == pytest.approx(1_000_000 * WORTH_S, rel=0.1)
    owed = gate.channels[0].owed_bytes
    assert sum(grants) + owed - sent * size == fast - (1 << 10), "no credit is lost or made up"

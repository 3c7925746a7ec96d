"""The wire format: everything that is sent arrives as it was, and garbage is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import ProtocolError, UserFunctionError
from mainstay.runtime.messages import (
    AbortEpoch,
    Acknowledge,
    AssignSplits,
    Attempt,
    ChannelId,
    Committed,
    Credit,
    Data,
    Decline,
    Ended,
    EndOfInput,
    Epoch,
    EpochComplete,
    Figures,
    Marker,
    Ready,
    Release,
    Trigger,
    WorkerFailed,
)
from mainstay.transport.codec import decode, encode
from mainstay.transport.hub import Die, Hello, Welcome
from mainstay.transport.links import Peer

ATTEMPT, CHANNEL, EPOCH = Attempt(3), ChannelId(7), Epoch(11)
PEER = Peer("here", "tcp://127.0.0.1:1", "ipc://@one")
LARGEST = 2**64 - 1

FLAT = pa.record_batch({"n": pa.array([1, 2, 3, 4]), "s": pa.array(["a", "bb", "", "dddd"])})
BATCHES = {
    "flat": FLAT,
    "empty": FLAT.slice(0, 0),
    "without columns": pa.RecordBatch.from_arrays([], schema=pa.schema([])),
    "a slice from the middle": FLAT.slice(1, 2),
    "a slice of booleans that begins inside a byte": pa.record_batch(
        {"b": pa.array([True, False, None, True] * 5)}
    ).slice(3, 9),
    "nulls": pa.record_batch({"n": pa.array([None, 1, None]), "s": pa.array([None, None, "x"])}),
    "only nulls": pa.record_batch({"n": pa.array([None, None], pa.int64())}),
    "nested": pa.record_batch(
        {
            "l": pa.array([[1, 2], None, [], [3]]),
            "t": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}, None, {"a": 4, "b": None}]),
            "m": pa.array([[("k", 1)], [], None, [("z", None)]], pa.map_(pa.string(), pa.int64())),
        }
    ),
    "a slice of nested": pa.record_batch(
        {"l": pa.array([[["a"], []], [None], None, [["b"]]])}
    ).slice(1, 3),
    "large": pa.record_batch({"n": pa.array(range(200_000))}),
}


def passed(message: Any, schema: pa.Schema | None = None) -> Any:
    frames = [bytes(frame) for frame in encode(message)]
    return decode(frames, lambda channel: {CHANNEL: schema}[channel])


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_arrives_with_its_schema_rows_and_price(name: str) -> None:
    batch = BATCHES[name]
    arrived = passed(Data(ATTEMPT, CHANNEL, 5, batch, 1234), batch.schema)
    arrived.element.validate(full=True)
    assert arrived.element.equals(batch)
    assert (arrived.attempt, arrived.channel, arrived.sequence) == (ATTEMPT, CHANNEL, 5)
    assert arrived.size_bytes == 1234


def test_a_slice_does_not_carry_the_batch_it_was_cut_from() -> None:
    batch = BATCHES["large"]
    _, whole = encode(Data(ATTEMPT, CHANNEL, 0, batch, 1))
    _, slice_ = encode(Data(ATTEMPT, CHANNEL, 0, batch.slice(1000, 10), 1))
    assert len(slice_) < len(whole) / 100


def test_a_batch_is_read_in_place() -> None:
    batch = BATCHES["large"]
    header, body = encode(Data(ATTEMPT, CHANNEL, 0, batch, 1))
    frame = pa.py_buffer(bytes(body))
    before = pa.total_allocated_bytes()
    arrived = decode([header, frame], lambda _: batch.schema)
    assert arrived.element.equals(batch)
    assert pa.total_allocated_bytes() - before < 10_000


@pytest.mark.parametrize("element", [Marker(EPOCH), Marker(Epoch(LARGEST)), EndOfInput()])
def test_markers_and_the_end_of_input_keep_their_place(element: Any) -> None:
    data = Data(ATTEMPT, CHANNEL, LARGEST, element, 0)
    assert passed(data) == data


@pytest.mark.parametrize(
    "message",
    [
        Credit(ATTEMPT, CHANNEL, LARGEST),
        Trigger(ATTEMPT, EPOCH),
        AbortEpoch(ATTEMPT, EPOCH),
        EpochComplete(ATTEMPT, EPOCH),
        AssignSplits(ATTEMPT, "ids", 1, ({"id": "a"}, {"id": "b"}), last=True),
        Release(ATTEMPT),
        Ready(ATTEMPT, 2),
        Acknowledge(ATTEMPT, EPOCH, "task", 1, {}, Figures(0.1, 0.2, 0.3, 4)),
        Decline(ATTEMPT, EPOCH, "task", 1, "no room"),
        Ended(ATTEMPT, "task", 1),
        Committed(ATTEMPT, EPOCH, "task", 1),
        Hello(ATTEMPT, 1, 1, 4711, "127.0.0.1", PEER, (0, 4096)),
        Welcome(ATTEMPT, 1, b"job", b"state", {0: PEER}),
        Die(ATTEMPT),
    ],
    ids=lambda message: type(message).__name__,
)
def test_every_message_arrives_as_it_was_sent(message: Any) -> None:
    assert passed(message) == message


def test_the_error_of_a_worker_arrives_with_its_own_traceback() -> None:
    error = UserFunctionError("ledger", 2, "LookupError: nothing", "Traceback: line 1")
    arrived = passed(WorkerFailed(ATTEMPT, 2, error))
    assert (arrived.worker, type(arrived.error)) == (2, UserFunctionError)
    assert (arrived.error.uid, arrived.error.subtask) == ("ledger", 2)
    assert arrived.error.user_traceback == "Traceback: line 1"


class _Bomb:
    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise OSError("it exploded")


HEADER, BODY = encode(Data(ATTEMPT, CHANNEL, 0, FLAT, 1))
MARKER = encode(Data(ATTEMPT, CHANNEL, 0, Marker(EPOCH), 0))[0]


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"\x00" * 25],
        [b"X" + MARKER[1:]],
        [MARKER[:-1]],
        [MARKER + b"\x00"],
        [MARKER, b"more"],
        [b"P"],
        [b"Pgarbage"],
        [b"P" + pickle.dumps(_Bomb())],
        [b"P" + pickle.dumps(1)[:-1]],
        [HEADER],
        [HEADER, b""],
        [HEADER, b"garbage" * 100],
        [HEADER, bytes(BODY)[: len(BODY) // 2]],
        [HEADER, bytes(BODY), b"more"],
    ],
    ids=lambda frames: f"{len(frames)}-frames",
)
def test_garbage_is_refused_with_a_protocol_error(frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        decode(frames, lambda _: FLAT.schema)


def test_a_batch_of_a_channel_that_is_not_known_is_refused() -> None:
    with pytest.raises(ProtocolError, match="KeyError"):
        decode([HEADER, bytes(BODY)], lambda channel: {}[channel])

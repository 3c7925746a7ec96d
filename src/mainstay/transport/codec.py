"""The wire format: messages as frames, batches as Arrow IPC without their schema.

The first byte of the first frame says what it is; the version of the format is exchanged in the
greeting. A batch takes a second frame, which the receiver reads in place. Everything else that
passes is small and pickled: only holders of the attempt's keys can send it.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import pyarrow as pa

from mainstay.errors import ProtocolError, named
from mainstay.runtime.messages import (
    Attempt,
    ChannelId,
    Credit,
    Data,
    EndOfInput,
    Epoch,
    Marker,
    TimeMark,
)

WIRE_VERSION = 4

_BATCH, _MARKER, _END, _CREDIT, _PICKLED = b"B", b"M", b"E", b"C", b"P"
_WATERMARK, _IDLE = b"W", b"I"
_NO_TIME = 0
_TIME_ZERO = 1 << 63
"""Times are sent as unsigned numbers; zero is none."""
_HEADER = struct.Struct("<cIIQQ")
Frames = list[Any]
SchemaOf = Callable[[ChannelId], pa.Schema]


def encode(message: Any) -> Frames:
    """The frames of a message."""
    if isinstance(message, Data):
        return _encode_data(message)
    if isinstance(message, Credit):
        header = _HEADER.pack(_CREDIT, message.attempt, message.channel, 0, message.size_bytes)
        return [header]
    return [_PICKLED + cloudpickle.dumps(message)]


def _encode_data(data: Data) -> Frames:
    element = data.element
    if isinstance(element, Marker):
        return [_HEADER.pack(_MARKER, data.attempt, data.channel, data.sequence, element.epoch)]
    if isinstance(element, EndOfInput):
        return [_HEADER.pack(_END, data.attempt, data.channel, data.sequence, 0)]
    if isinstance(element, TimeMark):
        kind = _IDLE if element.is_idle else _WATERMARK
        time = _NO_TIME if element.time_us is None else element.time_us + _TIME_ZERO
        return [_HEADER.pack(kind, data.attempt, data.channel, data.sequence, time)]
    header = _HEADER.pack(_BATCH, data.attempt, data.channel, data.sequence, data.size_bytes)
    return [header, element.serialize()]


def decode(frames: Sequence[Any], schema_of: SchemaOf) -> Any:
    """The message of some frames. A batch keeps its frame alive and copies nothing.

    Raises ``ProtocolError`` for everything that no ``encode`` has written.
    """
    try:
        return _decode(frames, schema_of)
    except ProtocolError:
        raise
    except Exception as error:
        sizes = [len(frame) for frame in frames]
        raise ProtocolError(
            f"a message with frames of {sizes} bytes cannot be read: {named(error)}"
        ) from error


def _decode(frames: Sequence[Any], schema_of: SchemaOf) -> Any:
    first = bytes(frames[0])
    kind = first[:1]
    if len(frames) != (2 if kind == _BATCH else 1):
        raise ProtocolError(f"a message that begins with {kind!r} has {len(frames)} frames")
    if kind == _PICKLED:
        return pickle.loads(first[1:])
    if len(first) != _HEADER.size:
        raise ProtocolError(f"a message of {len(first)} bytes has no known form")
    _, attempt, number, sequence, last = _HEADER.unpack(first)
    channel, of = ChannelId(number), Attempt(attempt)
    if kind == _BATCH:
        batch = pa.ipc.read_record_batch(pa.py_buffer(frames[1]), schema_of(channel))
        return Data(of, channel, sequence, batch, last)
    if kind == _MARKER:
        return Data(of, channel, sequence, Marker(Epoch(last)), 0)
    if kind == _END:
        return Data(of, channel, sequence, EndOfInput(), 0)
    if kind in (_WATERMARK, _IDLE):
        watermark = TimeMark(None if last == _NO_TIME else last - _TIME_ZERO, kind == _IDLE)
        return Data(of, channel, sequence, watermark, 0)
    if kind == _CREDIT:
        return Credit(of, channel, last)
    raise ProtocolError(f"a message begins with {kind!r}, which is no known kind")

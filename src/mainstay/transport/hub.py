"""The hub: the coordinator's end of its links to the workers.

The address of a process on the hub is its attempt and the number it was started with; which worker
it becomes it learns here. Heartbeats come from an address of their own, because a thread of their
own sends them. An address is believed only with the key of its attempt. What comes from an attempt
that was dropped is not handed on.
"""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass
from typing import Any

import zmq

from mainstay.errors import ProtocolError
from mainstay.transport.address import listen
from mainstay.transport.codec import decode, encode
from mainstay.transport.keys import AttemptKeys, Doorkeeper, KeyPair, guard
from mainstay.transport.links import HANDSHAKE_MS, Peer

_IDENTITY = struct.Struct("<cII")
_PROGRESS = struct.Struct("<Q")
_MOST_AT_ONCE = 1000


def identity(kind: bytes, attempt: int, process: int) -> bytes:
    """The address of a process (``w``) or of its heartbeat (``h``)."""
    return _IDENTITY.pack(kind, attempt, process)


def beat(progress: int) -> bytes:
    """What a heartbeat says, and what the hub echoes."""
    return _PROGRESS.pack(progress)


def is_beat(frames: list[bytes]) -> bool:
    return len(frames) == 1 and len(frames[0]) == _PROGRESS.size


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The process lives; ``progress`` counts the passes of its loop."""

    attempt: int
    process: int
    progress: int


@dataclass(frozen=True, slots=True)
class Hello:
    """A process introduces itself: where others reach it, where it runs, and what is there.

    ``held_bytes`` says how much of the state of each worker its host has; it is empty where the
    host has none. The first three fields stay where they are, for other versions to be told by.
    """

    attempt: int
    process: int
    wire_version: int
    pid: int
    host: str
    peer: Peer
    held_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Welcome:
    """Everyone is there: which worker the process is, what to run, from what, and where the others
    are."""

    attempt: int
    worker: int
    deployment: bytes
    restored: bytes
    peers: dict[int, Peer]


@dataclass(frozen=True, slots=True)
class Die:
    """The attempt is over: exit at once."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Garbled:
    """A process sent something that cannot be read."""

    attempt: int
    process: int
    reason: str


class Hub:
    """A listening socket on the driver. Used by one thread."""

    def __init__(self, host: str) -> None:
        self._keys = KeyPair.new()
        self._attempts: dict[int, AttemptKeys] = {}
        with contextlib.ExitStack() as closing:
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            closing.callback(context.term)
            self._doorkeeper = Doorkeeper(context)
            closing.callback(self._doorkeeper.close)
            self.socket = context.socket(zmq.ROUTER)
            closing.callback(self.socket.close)
            self.socket.linger = 500
            self.socket.sndhwm = self.socket.rcvhwm = 0
            # What is sent to a worker that is gone is dropped: its end is noticed otherwise.
            self.socket.router_mandatory = False
            self.socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
            guard(self.socket, self._keys)
            self.address = listen(self.socket, host)
            self._closing = closing.pop_all()

    def admit(self, attempt: int) -> AttemptKeys:
        """New keys for a new attempt."""
        keys = AttemptKeys.new(self._keys.public)
        self._attempts[attempt] = keys
        self._doorkeeper.allow(keys.worker.public)
        return keys

    def drop(self, attempt: int) -> None:
        """Hear no more of an attempt, and let nobody in with its keys."""
        keys = self._attempts.pop(attempt, None)
        if keys is not None:
            self._doorkeeper.refuse(keys.worker.public)

    def send(self, attempt: int, process: int, message: Any) -> None:
        frames = encode(message)
        self.socket.send_multipart([identity(b"w", attempt, process), *frames], copy=True)

    def receive(self) -> list[Any]:
        """What has arrived; messages of dropped attempts are left out."""
        messages = []
        for _ in range(_MOST_AT_ONCE):
            if not self.socket.poll(0):
                break
            sender, *frames = self.socket.recv_multipart(copy=False)
            message = self._hear(sender, [frame.bytes for frame in frames])
            if message is not None:
                messages.append(message)
        return messages

    def _hear(self, sender: zmq.Frame, frames: list[bytes]) -> Any:
        name = sender.bytes
        if len(name) != _IDENTITY.size or not frames:
            return None
        kind, attempt, process = _IDENTITY.unpack(name)
        keys = self._attempts.get(attempt)
        if keys is None or sender.get("User-Id") != keys.worker.public.decode():
            self.socket.send_multipart([name, *encode(Die(attempt))])
            return None
        if kind == b"h" and is_beat(frames):
            # The echo is the lease: a worker that does not get it ends itself.
            self.socket.send_multipart([name, *frames])
            return Heartbeat(attempt, process, _PROGRESS.unpack(frames[0])[0])
        return _read(attempt, process, frames)

    def close(self) -> None:
        self._closing.close()


def _read(attempt: int, process: int, frames: list[bytes]) -> Any:
    try:
        message = decode(frames, _no_schema)
    except ProtocolError as error:
        return Garbled(attempt, process, str(error))
    if getattr(message, "attempt", None) != attempt:
        return Garbled(attempt, process, f"{type(message).__name__} is not of its attempt")
    return message


def _no_schema(channel: int) -> Any:
    raise ProtocolError(f"a batch of channel {channel} reached the coordinator")

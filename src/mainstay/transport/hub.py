"""The hub: the coordinator's end of its links to the workers.

A worker's address on the hub is its attempt and number; heartbeats come from an address of their
own, because a thread of their own sends them. What comes from an attempt that was dropped is not
handed on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import zmq

from mainstay.transport.codec import decode, encode
from mainstay.transport.keys import AttemptKeys, Doorkeeper, KeyPair, guard

_IDENTITY = struct.Struct("<cII")


def identity(kind: bytes, attempt: int, worker: int) -> bytes:
    """The address of a worker (``w``) or of its heartbeat (``h``)."""
    return _IDENTITY.pack(kind, attempt, worker)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The process lives; ``progress`` counts the passes of its loop."""

    attempt: int
    worker: int
    progress: int


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker introduces itself: where others reach it, and where it runs."""

    attempt: int
    worker: int
    wire_version: int
    pid: int
    host: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Welcome:
    """Everyone is there: what to run, and where the others are."""

    attempt: int
    deployment: bytes
    peers: dict[int, tuple[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Die:
    """The attempt is over: exit at once."""

    attempt: int


class Hub:
    """A listening socket on the driver. Used by one thread."""

    def __init__(self, host: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._doorkeeper = Doorkeeper(self._context)
        self._keys = KeyPair.new()
        self._attempts: dict[int, AttemptKeys] = {}
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.linger = 500
        self.socket.sndhwm = self.socket.rcvhwm = 0
        self.socket.router_mandatory = False
        guard(self.socket, self._keys)
        port = self.socket.bind_to_random_port(f"tcp://{host}")
        self.address = f"tcp://{host}:{port}"

    def admit(self, attempt: int) -> AttemptKeys:
        """New keys for a new attempt."""
        keys = AttemptKeys.new(self._keys)
        self._attempts[attempt] = keys
        self._doorkeeper.allow(keys.worker.public)
        return keys

    def drop(self, attempt: int) -> None:
        """Hear no more of an attempt, and let nobody in with its keys."""
        keys = self._attempts.pop(attempt, None)
        if keys is not None:
            self._doorkeeper.refuse(keys.worker.public)

    def send(self, attempt: int, worker: int, message: Any) -> None:
        frames = encode(message)
        self.socket.send_multipart([identity(b"w", attempt, worker), *frames], copy=True)

    def receive(self) -> list[Any]:
        """Everything that has arrived; messages of dropped attempts are left out."""
        messages = []
        while self.socket.poll(0):
            sender, *frames = self.socket.recv_multipart()
            if len(sender) != _IDENTITY.size or not frames:
                continue
            kind, attempt, worker = _IDENTITY.unpack(sender)
            if attempt not in self._attempts:
                self.socket.send_multipart([sender, *encode(Die(attempt))])
                continue
            if kind == b"h":
                # The echo is the lease: a worker that does not get it ends itself.
                self.socket.send_multipart([sender, *frames])
                progress = int.from_bytes(frames[0], "little")
                messages.append(Heartbeat(attempt, worker, progress))
            else:
                messages.append(decode(frames, _no_schema))
        return messages

    def close(self) -> None:
        self.socket.close()
        self._doorkeeper.close()
        self._context.term()


def _no_schema(channel: int) -> Any:
    raise AssertionError(f"a batch of channel {channel} reached the coordinator")

"""Links: one connection for each pair of workers, which carries all their channels.

Of two workers the one with the lower number connects; the other answers on the same connection.
Workers of one host meet on a Unix socket, others by TCP. Nothing is limited here: the credits of
the channels bound what is under way.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from typing import Any

import zmq

from mainstay.errors import ProtocolError
from mainstay.transport.codec import SchemaOf, decode, encode
from mainstay.transport.keys import AttemptKeys, Doorkeeper, guard, present

_NUMBER = struct.Struct("<I")
_GREETING = b"G"


class Links:
    """The links of one worker to its peers. Used by one thread."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        attempt: int,
        number: int,
        host: str,
        keys: AttemptKeys,
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._number = number
        self._host = host
        self._keys = keys
        self._doorkeeper = Doorkeeper(context)
        self._doorkeeper.allow(keys.worker.public)
        self._router = self._socket(zmq.ROUTER)
        self._router.router_mandatory = True
        guard(self._router, keys.worker)
        port = self._router.bind_to_random_port(f"tcp://{host}")
        # A name without a file: nothing is left behind when the process is killed.
        local = f"ipc://@mainstay-{uuid.uuid4().hex}"
        self._router.bind(local)
        self.addresses = (f"tcp://{host}:{port}", local)
        self._dealers: dict[int, zmq.Socket[bytes]] = {}

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.sndhwm = socket.rcvhwm = 0
        return socket

    def connect(self, peers: dict[int, tuple[str, tuple[str, ...]]], timeout_s: float) -> None:
        """Connect to those with higher numbers, and wait until everyone has been heard of."""
        for peer, (host, addresses) in peers.items():
            if peer > self._number:
                dealer = self._socket(zmq.DEALER)
                dealer.routing_id = _NUMBER.pack(self._number)
                present(dealer, self._keys.worker, self._keys.worker.public)
                dealer.connect(addresses[1] if host == self._host else addresses[0])
                dealer.send(_GREETING)
                self._dealers[peer] = dealer
        missing = {peer for peer in peers if peer != self._number}
        poller = self.poller()
        while missing:
            ready = dict(poller.poll(int(timeout_s * 1000)))
            if not ready:
                raise ProtocolError(
                    f"worker {self._number} cannot reach workers {sorted(missing)} within "
                    f"{timeout_s} s. Executors must be able to open connections to each other."
                )
            for peer, frames in self._arrived(ready):
                if frames[0] == _GREETING:
                    missing.discard(peer)
                    if peer < self._number:
                        self._router.send_multipart([_NUMBER.pack(peer), _GREETING])

    def poller(self) -> zmq.Poller:
        """A poller that wakes when something arrives on any link."""
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        for dealer in self._dealers.values():
            poller.register(dealer, zmq.POLLIN)
        return poller

    def _arrived(self, ready: dict[Any, int]) -> Iterator[tuple[int, list[Any]]]:
        if self._router in ready:
            while self._router.poll(0):
                sender, *frames = self._router.recv_multipart(copy=False)
                yield _NUMBER.unpack(sender.bytes)[0], _plain(frames)
        for peer, dealer in self._dealers.items():
            if dealer in ready:
                while dealer.poll(0):
                    yield peer, _plain(dealer.recv_multipart(copy=False))

    def receive(self, ready: dict[Any, int], schema_of: SchemaOf) -> Iterator[Any]:
        """The messages that have arrived on the sockets that the poller found ready."""
        for _, frames in self._arrived(ready):
            if frames[0] != _GREETING:
                yield decode(frames, schema_of)

    def send(self, peer: int, message: Any) -> None:
        frames = encode(message)
        if peer > self._number:
            self._dealers[peer].send_multipart(frames, copy=False)
        else:
            self._router.send_multipart([_NUMBER.pack(peer), *frames], copy=False)

    def close(self) -> None:
        for dealer in self._dealers.values():
            dealer.close()
        self._router.close()
        self._doorkeeper.close()


def _plain(frames: list[Any]) -> list[Any]:
    """The first frame as bytes, the others as buffers that are read in place."""
    return [frames[0].bytes, *(frame.buffer for frame in frames[1:])]

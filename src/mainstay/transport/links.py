"""Links: one connection for each pair of workers, which carries all their channels.

Of two workers the one with the lower number connects; the other answers on the same connection.
Workers of one place meet on a Unix socket, others by TCP. Nothing is limited here: the credits of
the channels bound what is under way. A link that breaks is not mended: ``LinkError`` ends the
worker, and with it the attempt.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import zmq

from mainstay.errors import LinkError, ProtocolError
from mainstay.transport.address import has_local_sockets, listen, local_address, reach
from mainstay.transport.codec import SchemaOf, decode, encode
from mainstay.transport.keys import AttemptKeys, Doorkeeper, guard, present
from mainstay.transport.watch import Watch

_NUMBER = struct.Struct("<I")
_GREETING = b"G"
HEARTBEAT_MS = 5000
SILENCE_MS = 20000
HANDSHAKE_MS = 5000


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a worker is reached: on Unix sockets from the same place, by TCP from others."""

    place: str
    tcp: str
    local: str | None


class Links:
    """The links of one worker to its peers. Used by one thread.

    It listens before it has a number: that it gets when all have said where they listen.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], host: str, place: str, keys: AttemptKeys
    ) -> None:
        self._context = context
        self._number = -1
        self._keys = keys
        self._dealers: dict[int, zmq.Socket[bytes]] = {}
        self._watches: dict[int, Watch] = {}
        self._early: list[tuple[int, list[Any]]] = []
        with contextlib.ExitStack() as closing:
            doorkeeper = Doorkeeper(context)
            closing.callback(doorkeeper.close)
            doorkeeper.allow(keys.worker.public)
            self._router = self._socket(zmq.ROUTER)
            closing.callback(self._router.close)
            self._router.router_mandatory = True
            # A connection that shows no key holds a file descriptor for this long.
            self._router.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
            guard(self._router, keys.worker)
            tcp = listen(self._router, host)
            local = local_address() if has_local_sockets() else None
            if local is not None:
                # Without file descriptors left, ZeroMQ would abort the process on this socket.
                self._router.setsockopt(zmq.IPC_FILTER_UID, os.getuid())
                self._router.bind(local)
            self.own = Peer(place, tcp, local)
            self._closing = closing.pop_all()

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.sndhwm = socket.rcvhwm = 0
        return socket

    # ------------------------------------------------------------ connecting

    def connect(self, number: int, peers: dict[int, Peer], timeout_s: float) -> None:
        """As a worker, connect to those with higher numbers, and wait until all are heard of."""
        self._number = number
        for other, peer in peers.items():
            if other > number:
                self._connect(other, peer)
        missing = peers.keys() - {number}
        poller = self.poller()
        while missing:
            ready = dict(poller.poll(int(timeout_s * 1000)))
            if not ready:
                raise LinkError(
                    f"worker {number} cannot reach workers {sorted(missing)} within "
                    f"{timeout_s} s. Executors must be able to open connections to each other."
                )
            self._check(ready)
            for other, frames in self._arrived(ready):
                if frames[0] == _GREETING:
                    missing.discard(other)
                    self._greet_back(other)
                else:
                    # A peer that has heard of everyone may begin before this worker has.
                    self._early.append((other, frames))

    def _connect(self, number: int, peer: Peer) -> None:
        dealer = self._socket(zmq.DEALER)
        self._dealers[number] = dealer
        dealer.routing_id = _NUMBER.pack(self._number)
        dealer.heartbeat_ivl = HEARTBEAT_MS
        dealer.heartbeat_timeout = SILENCE_MS
        present(dealer, self._keys.worker, self._keys.worker.public)
        self._watches[number] = Watch(dealer)
        is_near = peer.place == self.own.place and peer.local is not None
        address = peer.local if is_near and peer.local is not None else peer.tcp
        reach(dealer, address)
        dealer.send(_GREETING)

    def _greet_back(self, number: int) -> None:
        if number < self._number:
            self._transmit(number, [_GREETING])

    def poller(self) -> zmq.Poller:
        """A poller that wakes when something arrives on any link, or a link breaks."""
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        for number, dealer in self._dealers.items():
            poller.register(dealer, zmq.POLLIN)
            poller.register(self._watches[number].socket, zmq.POLLIN)
        return poller

    # ------------------------------------------------------------ messages

    def _check(self, ready: dict[Any, int]) -> None:
        for number, watch in self._watches.items():
            if watch.socket in ready:
                raise self._lost(number)

    def _lost(self, number: int) -> LinkError:
        lost = LinkError(f"worker {self._number} lost its link to worker {number}")
        lost.is_hearsay = True
        return lost

    def _arrived(self, ready: dict[Any, int]) -> Iterator[tuple[int, list[Any]]]:
        if self._router in ready:
            while self._router.poll(0):
                sender, *frames = self._router.recv_multipart(copy=False)
                yield _number(sender.bytes), _plain(frames)
        for number, dealer in self._dealers.items():
            if dealer in ready:
                while dealer.poll(0):
                    yield number, _plain(dealer.recv_multipart(copy=False))

    def receive(self, ready: dict[Any, int], schema_of: SchemaOf) -> Iterator[Any]:
        """The messages that have arrived on the sockets that the poller found ready."""
        early, self._early = self._early, []
        for _, frames in early:
            yield decode(frames, schema_of)
        for _, frames in self._arrived(ready):
            if frames[0] != _GREETING:
                yield decode(frames, schema_of)
        self._check(ready)

    def send(self, peer: int, message: Any) -> None:
        self._transmit(peer, encode(message))

    def _transmit(self, peer: int, frames: list[Any]) -> None:
        # Frames are copied: sending them in place would need a thread that outlives the worker.
        try:
            if peer > self._number:
                self._dealers[peer].send_multipart(frames, zmq.NOBLOCK, copy=True)
            else:
                self._router.send_multipart([_NUMBER.pack(peer), *frames], zmq.NOBLOCK, copy=True)
        except (zmq.Again, zmq.ZMQError) as error:
            # There is no bound on what a link takes, so only one that is gone refuses.
            raise self._lost(peer) from error

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        for dealer in self._dealers.values():
            dealer.close()
        self._closing.close()


def _number(routing_id: bytes) -> int:
    if len(routing_id) != _NUMBER.size:
        raise ProtocolError(f"a link was opened under the name {routing_id!r}, which is no worker")
    number: int = _NUMBER.unpack(routing_id)[0]
    return number


def _plain(frames: list[Any]) -> list[Any]:
    """The first frame as bytes, the others as buffers that are read in place."""
    return [frames[0].bytes, *(frame.buffer for frame in frames[1:])]

"""Keys: who may connect. Every attempt has a pair for its hub and a pair for its workers.

They are made on the driver and travel to the workers inside the Spark job. Every socket is
encrypted with CURVE, and a listening one accepts only the workers' key: whoever has not got it
can neither read nor send.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import zmq
from zmq.auth.thread import ThreadAuthenticator


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A CURVE key pair in its printable form."""

    public: bytes
    secret: bytes = field(repr=False)

    @staticmethod
    def new() -> KeyPair:
        return KeyPair(*zmq.curve_keypair())


@dataclass(frozen=True, slots=True)
class AttemptKeys:
    """The keys of one attempt."""

    hub: KeyPair
    worker: KeyPair

    @staticmethod
    def new(hub: KeyPair) -> AttemptKeys:
        return AttemptKeys(hub, KeyPair.new())


class Doorkeeper:
    """Lets in the holders of known keys; the same for every listening socket of a context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._allowed: set[bytes] = set()
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=self)

    def allow(self, public: bytes) -> None:
        self._allowed.add(public)

    def refuse(self, public: bytes) -> None:
        self._allowed.discard(public)

    def callback(self, domain: str, key: bytes) -> bool:
        """What the authenticator asks for each connection."""
        return key in self._allowed

    def close(self) -> None:
        self._authenticator.stop()


def guard(socket: zmq.Socket[bytes], keys: KeyPair) -> None:
    """Make a socket that is about to listen demand keys."""
    socket.curve_server = True
    socket.curve_secretkey = keys.secret
    socket.curve_publickey = keys.public


def present(socket: zmq.Socket[bytes], own: KeyPair, server_public: bytes) -> None:
    """Make a socket that is about to connect show its key, and know whom it talks to."""
    socket.curve_serverkey = server_public
    socket.curve_publickey = own.public
    socket.curve_secretkey = own.secret

"""Keys: who may connect. The hub has a pair of its own; every attempt has one for its workers.

They are made on the driver. The workers' pair and the public half of the hub's travel to the
workers inside the Spark job; the hub's secret stays where it is. Every socket is encrypted with
CURVE, and a listening one accepts only keys it knows: without one nobody can read or send.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import zmq
from zmq.auth.thread import ThreadAuthenticator

_DOMAIN = "mainstay"


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
    """What the workers of one attempt hold: whom to trust, and their own pair."""

    hub_public: bytes
    worker: KeyPair

    @staticmethod
    def new(hub_public: bytes) -> AttemptKeys:
        return AttemptKeys(hub_public, KeyPair.new())


class Doorkeeper:
    """Lets in the holders of known keys; the same for every listening socket of a context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._allowed: set[bytes] = set()
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain=_DOMAIN, credentials_provider=self)

    def allow(self, public: bytes) -> None:
        self._allowed.add(public)

    def refuse(self, public: bytes) -> None:
        """Let nobody else in with this key. Connections that exist are not ended by it."""
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
    socket.zap_domain = _DOMAIN.encode()
    # Without a doorkeeper, which goes first when things are closed, nobody is let in.
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def present(socket: zmq.Socket[bytes], own: KeyPair, server_public: bytes) -> None:
    """Make a socket that is about to connect show its key, and know whom it talks to."""
    socket.curve_serverkey = server_public
    socket.curve_publickey = own.public
    socket.curve_secretkey = own.secret

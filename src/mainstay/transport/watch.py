"""A watch on a connection: tells when it has ended, or was refused.

ZeroMQ connects again by itself, but what was under way is lost then, and nobody would know. A
connection of an attempt therefore ends once: a process that sees it end gives up.
"""

from __future__ import annotations

import zmq

_ENDINGS = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


class Watch:
    """Watches the one connection of a socket that is about to connect."""

    def __init__(self, watched: zmq.Socket[bytes]) -> None:
        self._watched = watched
        self.socket = watched.get_monitor_socket(_ENDINGS)

    def has_ended(self) -> bool:
        return bool(self.socket.poll(0))

    def close(self) -> None:
        """Must come before the watched socket is closed."""
        self._watched.disable_monitor()
        self.socket.close(linger=0)

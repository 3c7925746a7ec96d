"""A bell that a thread rings to end another thread's wait on sockets."""

from __future__ import annotations

import socket


class Wakeup:
    """A pair of sockets: one end is polled, the other is written to."""

    def __init__(self) -> None:
        self.listening, self._ringing = socket.socketpair()
        self.listening.setblocking(False)
        self._ringing.setblocking(False)

    def ring(self) -> None:
        """From any thread. A bell that rings already is not rung louder, a closed one is silent."""
        try:
            self._ringing.send(b"!")
        except OSError:
            return

    def quiet(self) -> None:
        """Take note of all rings so far."""
        try:
            while self.listening.recv(4096):
                continue
        except BlockingIOError:
            return

    def close(self) -> None:
        self.listening.close()
        self._ringing.close()

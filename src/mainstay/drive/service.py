"""What a driver tells systemd, where it runs as a service: that it is ready, alive, and how it is.

A datagram to the socket that ``NOTIFY_SOCKET`` names, and nothing else. Without that variable
nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


class ServiceManager:
    """Told again and again how a job is doing, it passes on what is new."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Twice in the time that it is given, as systemd advises.
        self._beat_s = int(watchdog) / 2e6 if watchdog.isdigit() and is_ours else None
        self._next_beat = 0.0
        self._status = ""
        self._is_ready = False

    def update(self, status: str, now: float) -> None:
        """Called on every pass of a job's loop: one that hangs is not called."""
        if not self._address:
            return
        lines = []
        if not self._is_ready:
            lines.append("READY=1")
        if status != self._status:
            lines.append(f"STATUS={status}")
        if self._beat_s is not None and now >= self._next_beat:
            lines.append("WATCHDOG=1")
            self._next_beat = now + self._beat_s
        if lines:
            self._is_ready, self._status = True, status
            self._send("\n".join(lines))

    def _send(self, text: str) -> None:
        # A job does not depend on who watches it.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.sendto(text.encode(), self._address)

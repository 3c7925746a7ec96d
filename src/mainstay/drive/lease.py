"""The lease of a worker: a thread that sends heartbeats, and ends the process if the hub is silent.

A worker whose coordinator is gone must not go on: after the lease the process exits at once,
without cleaning up, as if it had been killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import NoReturn

import zmq

from mainstay.errors import named
from mainstay.tracebacks import are_full
from mainstay.transport.address import reach
from mainstay.transport.hub import beat, identity, is_beat
from mainstay.transport.keys import AttemptKeys, present

LEASE_S = 15.0
EXIT_CODE = 75
_MOST_BEAT_S = 0.5


def leave(reason: str, *, is_told: bool = False) -> NoReturn:
    """End this process at once: its attempt is over.

    ``is_told``: the coordinator has ended it, so there is nothing to report.
    """
    if not is_told or are_full():
        # To the stream of the process itself: nobody will send on what others listen to.
        print(f"mainstay: process {os.getpid()} ends: {reason}", file=sys.__stderr__, flush=True)
    os._exit(EXIT_CODE)


@dataclass(slots=True)
class Progress:
    """Counts the passes of the loop; the loop writes it, the lease reads it."""

    passes: int = 0


class Lease(threading.Thread):
    """Sends heartbeats until it is stopped."""

    def __init__(
        self,
        hub_address: str,
        keys: AttemptKeys,
        attempt: int,
        process: int,
        progress: Progress,
        lease_s: float = LEASE_S,
        *,
        is_greeting: bool = False,
    ) -> None:
        """``is_greeting``: until the hub was heard of once, the process itself sees to it that it
        does not wait in vain, and can say what that means."""
        super().__init__(name="mainstay-lease", daemon=True)
        self._address = hub_address
        self._keys = keys
        self._attempt = attempt
        self._process = process
        self._progress = progress
        self._lease_s = lease_s
        self._heard: float | None = None if is_greeting else time.monotonic()
        self._is_over = threading.Event()

    def run(self) -> None:
        try:
            self._beat()
        except Exception as error:
            leave(f"its heartbeat failed: {named(error)}")

    def _beat(self) -> None:
        # A context of its own: heartbeats do not wait behind the data of the links.
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.routing_id = identity(b"h", self._attempt, self._process)
            present(socket, self._keys.worker, self._keys.hub_public)
            reach(socket, self._address)
            while not self._is_over.wait(min(_MOST_BEAT_S, self._lease_s / 4)):
                # A socket whose key was refused takes nothing: what is not sent is not heard.
                with contextlib.suppress(zmq.Again):
                    socket.send(beat(self._progress.passes), zmq.NOBLOCK)
                while socket.poll(0):
                    if not is_beat(socket.recv_multipart()):
                        leave(f"attempt {self._attempt} is over", is_told=True)
                    self._heard = time.monotonic()
                if self._is_silent():
                    leave(f"the coordinator was not heard of for {self._lease_s} s")

    def _is_silent(self) -> bool:
        return self._heard is not None and time.monotonic() - self._heard > self._lease_s

    @property
    def has_begun(self) -> bool:
        return self._heard is not None

    def begin(self) -> None:
        """The process was greeted: from now on it must go on hearing of the hub."""
        if self._heard is None:
            self._heard = time.monotonic()

    def stop(self) -> None:
        self._is_over.set()
        self.join()

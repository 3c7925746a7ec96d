"""The lease of a worker: a thread that says the process lives, and ends it when nobody hears.

A worker whose coordinator is gone must not go on: after the lease the process exits at once,
without cleaning up, as if it had been killed.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

import zmq

from mainstay.transport.hub import identity
from mainstay.transport.keys import AttemptKeys, present

BEAT_S = 0.5
LEASE_S = 15.0
EXIT_CODE = 75


@dataclass(slots=True)
class Progress:
    """Counts the passes of the loop; the loop writes it, the lease reads it."""

    passes: int = 0


class Lease(threading.Thread):
    """Sends heartbeats until it is told to stop."""

    def __init__(
        self, hub_address: str, keys: AttemptKeys, attempt: int, worker: int, progress: Progress
    ) -> None:
        super().__init__(name="mainstay-lease", daemon=True)
        self._address = hub_address
        self._keys = keys
        self._attempt = attempt
        self._worker = worker
        self._progress = progress
        self._is_over = threading.Event()

    def run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.linger = 0
        socket.routing_id = identity(b"h", self._attempt, self._worker)
        present(socket, self._keys.worker, self._keys.hub.public)
        socket.connect(self._address)
        heard = time.monotonic()
        while not self._is_over.wait(BEAT_S):
            socket.send(self._progress.passes.to_bytes(8, "little"))
            while socket.poll(0):
                if len(socket.recv_multipart()[0]) != 8:
                    # Not the echo: the hub does not know this attempt any more.
                    os._exit(EXIT_CODE)
                heard = time.monotonic()
            if time.monotonic() - heard > LEASE_S:
                os._exit(EXIT_CODE)
        socket.close()
        context.term()

    def stop(self) -> None:
        self._is_over.set()
        self.join()

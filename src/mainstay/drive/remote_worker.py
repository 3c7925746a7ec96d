"""A worker in a process of its own: introduces itself to the hub, links up, and runs.

It ends in one of four ways: released by the coordinator (returns), by an error of its own (tells
the coordinator, then raises), told to die, or when its lease runs out (both exit at once).
"""

from __future__ import annotations

import math
import os
import pickle
import queue
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import zmq

from mainstay.drive.background import Report, ThreadBackground
from mainstay.drive.clock import SystemClock
from mainstay.drive.lease import EXIT_CODE, Lease, Progress
from mainstay.drive.process import settle_process
from mainstay.drive.wakeup import Wakeup
from mainstay.errors import FencedError
from mainstay.runtime.messages import Attempt, ChannelId, WorkerFailed
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.worker import Deployment, Worker
from mainstay.snapshot.object_storage import open_storage
from mainstay.transport.codec import WIRE_VERSION, decode, encode
from mainstay.transport.hub import Die, Hello, Welcome, identity
from mainstay.transport.keys import AttemptKeys, present
from mainstay.transport.links import Links

IDLE_S = 0.05
START_S = 60.0
FAREWELL_MS = 3000


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What a worker's process is given to begin with."""

    attempt: int
    hub_address: str
    keys: AttemptKeys
    storage: str


class RemoteWorker:
    """One worker, its links and its threads, in this process."""

    def __init__(self, bootstrap: Bootstrap, number: int, host: str) -> None:
        self._bootstrap = bootstrap
        self._number = number
        self._host = host
        self._attempt = Attempt(bootstrap.attempt)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._hub = self._connect_to_hub()
        self._links = Links(self._context, bootstrap.attempt, number, host, bootstrap.keys)
        self._progress = Progress()
        self._lease = Lease(
            bootstrap.hub_address, bootstrap.keys, bootstrap.attempt, number, self._progress
        )
        self._wakeup = Wakeup()
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mainstay")
        self._early: deque[Any] = deque()

    def _connect_to_hub(self) -> zmq.Socket[bytes]:
        keys = self._bootstrap.keys
        socket = self._context.socket(zmq.DEALER)
        socket.sndhwm = socket.rcvhwm = 0
        socket.linger = FAREWELL_MS
        socket.routing_id = identity(b"w", self._bootstrap.attempt, self._number)
        present(socket, keys.worker, keys.hub.public)
        socket.connect(self._bootstrap.hub_address)
        return socket

    # ------------------------------------------------------------ beginning

    def run(self) -> None:
        """From the greeting to the end."""
        try:
            welcome = self._greet()
            self._lease.start()
            self._links.connect(welcome.peers, START_S)
            self._run(pickle.loads(welcome.deployment))
        except Exception as error:
            self._tell(WorkerFailed(self._attempt, self._number, _portable(error)))
            raise
        finally:
            self._close()

    def _greet(self) -> Welcome:
        hello = Hello(
            self._attempt,
            self._number,
            WIRE_VERSION,
            os.getpid(),
            self._host,
            self._links.addresses,
        )
        self._tell(hello)
        while True:
            if not self._hub.poll(int(START_S * 1000)):
                raise FencedError(
                    f"worker {self._number} got no answer from the coordinator at "
                    f"{self._bootstrap.hub_address} within {START_S} s. Executors must be able to "
                    "open connections to the driver."
                )
            message = self._decode_control(self._hub.recv_multipart())
            if isinstance(message, Welcome):
                return message

    def _decode_control(self, frames: list[bytes]) -> Any:
        message = decode(frames, self._schema_of)
        if isinstance(message, Die):
            os._exit(EXIT_CODE)
        return message

    def _schema_of(self, channel: ChannelId) -> Any:
        return self._schemas[channel]

    # ------------------------------------------------------------ the loop

    def _run(self, deployment: Deployment) -> None:
        self._schemas = _schemas(deployment, self._number)
        background = ThreadBackground(self._pool, self._reports, self._wakeup)
        storage = open_storage(self._bootstrap.storage)
        ports = Ports(SystemClock(), background, self._send, storage)
        settle_process()
        worker = Worker(deployment, self._number, ports)
        poller = self._links.poller()
        poller.register(self._hub, zmq.POLLIN)
        poller.register(self._wakeup.listening, zmq.POLLIN)
        has_more = True
        while not worker.released:
            self._progress.passes += 1
            ready = dict(poller.poll(0 if has_more else self._patience_ms(worker, ports)))
            has_news = self._hear(worker, ready)
            has_more = worker.step() or has_news

    def _patience_ms(self, worker: Worker, ports: Ports) -> int:
        due = worker.deadline()
        wait_s = IDLE_S if due is None else due - ports.clock.monotonic()
        return math.ceil(min(max(wait_s, 0.0), IDLE_S) * 1000)

    def _hear(self, worker: Worker, ready: dict[Any, int]) -> bool:
        """Take everything that has arrived, of every kind."""
        if self._wakeup.listening.fileno() in ready:
            self._wakeup.quiet()
        while not self._reports.empty():
            self._reports.get()()
        if self._hub in ready:
            while self._hub.poll(0):
                worker.receive(self._decode_control(self._hub.recv_multipart()))
        for message in self._links.receive(ready, self._schema_of):
            worker.receive(message)
        return bool(ready)

    def _send(self, to: int, message: Any) -> None:
        if to == COORDINATOR:
            self._tell(message)
        else:
            self._links.send(to, message)

    def _tell(self, message: Any) -> None:
        self._hub.send_multipart(encode(message))

    def _close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._lease.is_alive():
            self._lease.stop()
        self._links.close()
        self._wakeup.close()
        self._hub.close()
        self._context.term()


def _schemas(deployment: Deployment, number: int) -> dict[ChannelId, Any]:
    return {
        channel: edge.schema
        for task in deployment.job.tasks
        if number < task.parallelism
        for edge in task.inputs
        for channel, _ in edge.incoming(number)
    }


def _portable(error: Exception) -> Exception:
    """The error itself where it can be sent, otherwise what it says."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error

"""A job whose workers are processes elsewhere: the coordinator, its hub, and a launcher.

Workers that fall silent are given up after a while; workers that die are noticed by the launcher,
which hears of it from whatever supervises them.
"""

from __future__ import annotations

import math
import queue
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import cloudpickle
import zmq

from mainstay.drive.background import Report, ThreadBackground
from mainstay.drive.clock import SystemClock
from mainstay.drive.handle import JobHandle
from mainstay.drive.remote_worker import Bootstrap
from mainstay.drive.wakeup import Wakeup
from mainstay.errors import ProtocolError
from mainstay.runtime.coordinator import Coordinator
from mainstay.runtime.messages import Attempt
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.worker import Deployment
from mainstay.snapshot.object_storage import open_storage
from mainstay.transport.codec import WIRE_VERSION
from mainstay.transport.hub import Die, Heartbeat, Hello, Hub, Welcome

IDLE_S = 0.1
SILENCE_S = 10.0
START_S = 90.0


class Launcher(Protocol):
    """Starts the processes of an attempt somewhere, and says when they have ended."""

    host: str
    """The address under which processes there reach this one."""

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        """Start ``workers`` processes; call ``ended`` with the reason once they are no more."""

    def stop(self, attempt: int) -> None:
        """End the processes of an attempt, however slowly."""

    def close(self) -> None:
        """No attempt will be started any more: wait until all processes are gone."""


@dataclass(slots=True)
class _Gathering:
    """The workers of an attempt, as they come in."""

    deployment: Deployment
    started: float
    hellos: dict[int, Hello] = field(default_factory=dict)
    heard: dict[int, float] = field(default_factory=dict)
    is_running: bool = False


class RemoteJob(JobHandle):
    """A job on processes that a launcher starts."""

    def __init__(
        self, name: str, spec: JobSpec, options: JobOptions, storage: str, launcher: Launcher
    ) -> None:
        super().__init__(name)
        self._storage = storage
        self._launcher = launcher
        self._clock = SystemClock()
        self._wakeup = Wakeup()
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix=f"mainstay-{name}")
        self._gathering: _Gathering | None = None
        background = ThreadBackground(self._pool, self._reports, self._wakeup)
        ports = Ports(self._clock, background, self._send, open_storage(storage))
        self._hub = Hub(launcher.host)
        self.coordinator = Coordinator(spec, options, ports, self, lambda: uuid.uuid4().hex)
        self._start()

    def post(self, report: Report) -> None:
        """Have something done on the loop; from any thread."""
        self._reports.put(report)
        self._wakeup.ring()

    def workers(self) -> dict[int, tuple[str, int]]:
        """The host and the process id of every worker of the running attempt."""
        gathering = self._gathering
        hellos = dict(gathering.hellos) if gathering is not None else {}
        return {number: (hello.host, hello.pid) for number, hello in hellos.items()}

    # ------------------------------------------------------------ cluster

    def launch(self, deployment: Deployment) -> None:
        attempt = deployment.attempt
        keys = self._hub.admit(attempt)
        self._gathering = _Gathering(deployment, self._clock.monotonic())
        bootstrap = Bootstrap(attempt, self._hub.address, keys, self._storage)

        def ended(reason: str) -> None:
            self.post(lambda: self.coordinator.attempt_lost(attempt, reason))

        self._launcher.start(bootstrap, deployment.job.workers, ended)

    def stop(self, attempt: Attempt) -> None:
        for worker in self.workers():
            self._hub.send(attempt, worker, Die(attempt))
        self._hub.drop(attempt)
        self._gathering = None
        self._launcher.stop(attempt)

    def _send(self, worker: int, message: Any) -> None:
        self._hub.send(message.attempt, worker, message)

    # ------------------------------------------------------------ the loop

    def _loop(self) -> None:
        poller = zmq.Poller()
        poller.register(self._hub.socket, zmq.POLLIN)
        poller.register(self._wakeup.listening, zmq.POLLIN)
        self.coordinator.start()
        while not self.coordinator.status.is_final:
            poller.poll(self._patience_ms())
            self._wakeup.quiet()
            while not self._reports.empty():
                self._reports.get()()
            for message in self._hub.receive():
                self._hear(message)
            self._check_silence()
            self.coordinator.tick()

    def _patience_ms(self) -> int:
        due = self.coordinator.deadline()
        wait_s = IDLE_S if due is None else due - self._clock.monotonic()
        return math.ceil(min(max(wait_s, 0.0), IDLE_S) * 1000)

    def _hear(self, message: Any) -> None:
        gathering = self._gathering
        if gathering is None or message.attempt != gathering.deployment.attempt:
            return
        match message:
            case Heartbeat(_, worker, _):
                gathering.heard[worker] = self._clock.monotonic()
            case Hello():
                self._welcome(gathering, message)
            case _:
                self.coordinator.receive(message)

    def _welcome(self, gathering: _Gathering, hello: Hello) -> None:
        """When the last worker has come in, all are told what to run and where the others are."""
        attempt = gathering.deployment.attempt
        if hello.wire_version != WIRE_VERSION:
            error = ProtocolError(
                f"worker {hello.worker} speaks wire version {hello.wire_version}, the driver "
                f"{WIRE_VERSION}. Install the same version of mainstay on driver and executors."
            )
            self.coordinator.worker_lost(attempt, hello.worker, str(error))
            return
        gathering.hellos[hello.worker] = hello
        if len(gathering.hellos) < gathering.deployment.job.workers:
            return
        peers = {number: (h.host, h.addresses) for number, h in gathering.hellos.items()}
        deployment = cloudpickle.dumps(gathering.deployment)
        for worker in peers:
            self._hub.send(attempt, worker, Welcome(attempt, deployment, peers))
            gathering.heard[worker] = self._clock.monotonic()
        gathering.is_running = True

    def _check_silence(self) -> None:
        """Give up workers that never came, or that have not been heard of for long."""
        gathering = self._gathering
        if gathering is None:
            return
        now, attempt = self._clock.monotonic(), gathering.deployment.attempt
        if not gathering.is_running:
            if now - gathering.started > START_S:
                missing = gathering.deployment.job.workers - len(gathering.hellos)
                reason = f"{missing} workers did not start within {START_S} s"
                self.coordinator.attempt_lost(attempt, reason)
            return
        for worker, heard in gathering.heard.items():
            if now - heard > SILENCE_S:
                reason = f"it was not heard of for {SILENCE_S} s"
                self.coordinator.worker_lost(attempt, worker, reason)
                return

    def _close(self) -> None:
        self._launcher.close()
        self._pool.shutdown(wait=True)
        self._hub.close()
        self._wakeup.close()

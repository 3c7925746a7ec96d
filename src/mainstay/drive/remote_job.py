"""A job whose workers are processes elsewhere: the coordinator, its hub, and a launcher.

Workers that fall silent are given up after a while; workers that die are noticed by their peers,
and by the launcher, which hears of it from whatever supervises them.
"""

from __future__ import annotations

import contextlib
import math
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import cloudpickle
import zmq

from mainstay.drive.background import Report, ThreadBackground
from mainstay.drive.handle import JobHandle
from mainstay.drive.leadership import Term
from mainstay.drive.lease import LEASE_S
from mainstay.drive.printed import Printed
from mainstay.drive.remote_worker import Bootstrap
from mainstay.drive.scaling import Scaling
from mainstay.drive.wakeup import Wakeup
from mainstay.errors import LinkError, ProtocolError, brief
from mainstay.ha.election import Election
from mainstay.runtime.coordinator.silence import LostHost, Sighting, silence
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt, Ready, WorkerFailed
from mainstay.runtime.options import JobOptions
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.object_storage import open_storage
from mainstay.transport.codec import WIRE_VERSION
from mainstay.transport.hub import Die, Garbled, Heartbeat, Hello, Hub, Welcome

IDLE_S = 0.1
_SHOWN = 10
"""How many workers a message names."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the coordinator waits for workers, and they for it.

    ``silence_s``: after so long without a sign of life a worker is given up. ``lease_s``: after so
    long without a word from the coordinator a worker ends itself. ``start_s``: all workers must
    have come in by then. ``reason_s``: how long the reason for the
    end of a worker may take to come in, once another worker has seen that it is gone.
    """

    start_s: float = 90.0
    silence_s: float = 10.0
    reason_s: float = 1.0
    lease_s: float = LEASE_S


class Launcher(Protocol):
    """Starts the processes of an attempt somewhere, and says when they have ended."""

    host: str
    """The address under which processes there reach this one."""
    shares_terminal: bool
    """Whether what its processes print reaches the terminal of this one by itself."""

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        """Start ``workers`` processes; call ``ended`` with the reason once one is no more.

        ``ended`` may be called from any thread, at any time, and more than once.
        """

    def stop(self, attempt: int) -> None:
        """End the processes of an attempt, however slowly."""

    def leave(self, hosts: Sequence[LostHost]) -> None:
        """Start nothing on hosts that are lost, from the next attempt on. Must not block."""

    @property
    def counts_room(self) -> bool:
        """Whether it can tell how much room there is; where it cannot, there is always enough."""

    def room(self) -> int | None:
        """For how many processes of the job there is room, its own included; from any thread.

        None where that cannot be told.
        """

    def gone(self) -> Exception | None:
        """Why no process can ever be started here again; None where one can."""

    def close(self) -> None:
        """No attempt will be started any more: wait until all processes are gone."""


@dataclass(slots=True)
class _Gathering:
    """The workers of an attempt, as they come in."""

    attempt: Attempt
    workers: int
    deployment: bytes
    started: float
    hellos: dict[int, Hello] = field(default_factory=dict)
    heard: dict[int, float] = field(default_factory=dict)
    is_complete: bool = False

    def absence(self, waited_s: float, address: str) -> str:
        """Who has not come, who has and from where, and what may be the cause."""
        missing = [number for number in range(self.workers) if number not in self.hellos]
        came = sorted((number, hello.host) for number, hello in self.hellos.items())
        shown = "; ".join(f"worker {number} came, from {host}" for number, host in came[:_SHOWN])
        more = f" and {len(came) - _SHOWN} more" if len(came) > _SHOWN else ""
        numbers = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        return (
            f"{len(missing)} of {self.workers} workers did not come in within {waited_s} s: "
            f"{numbers} ({shown or 'none came'}{more}). There must be a free slot for each: end "
            "other jobs, or add executors or cores. And each must reach the coordinator at "
            f"{address}: if executors know this machine by another name or address, say it with "
            "Environment(coordinator_host=...)"
        )


class RemoteJob(JobHandle):
    """A job on processes that a launcher starts."""

    def __init__(
        self,
        name: str,
        spec: JobSpec,
        options: JobOptions,
        storage: str,
        launcher: Launcher,
        patience: Patience | None = None,
        scaling: Scaling | None = None,
        election: Election | None = None,
    ) -> None:
        super().__init__(name, spec, options, scaling, election, storage)
        self._storage = storage
        self._launcher = launcher
        self._patience = patience or Patience()
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._gathering: _Gathering | None = None
        self._hearsay: tuple[WorkerFailed, float] | None = None
        """What a worker says of the end of another, and how long that is kept back."""
        self._opened = open_storage(storage)
        with contextlib.ExitStack() as closing:
            self._wakeup = Wakeup()
            closing.callback(self._wakeup.close)
            self._hub = Hub(launcher.host)
            closing.callback(self._hub.close)
            self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix=f"mainstay-{name}")
            closing.callback(self._end_pool, self._pool)
            closing.callback(self._launcher.close)
            closing.callback(self._abandon)
            self._closing = closing.pop_all()
        self._start()

    def _term(self) -> Term:
        background = ThreadBackground(self._pool, self._reports, self._wakeup)
        return self._lead(background, self._send, self._opened, self)

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
        self._launching(deployment)
        attempt, workers = deployment.attempt, deployment.job.workers
        keys = self._hub.admit(attempt)
        bootstrap = Bootstrap(
            attempt,
            self._hub.address,
            keys,
            self._storage,
            self._patience.lease_s,
            self._launcher.shares_terminal,
            self._options.snapshots.local_recovery.of_processes(self._storage),
        )
        shipped = cloudpickle.dumps(deployment)
        self._gathering = _Gathering(attempt, workers, shipped, self._clock.monotonic())

        def ended(reason: str) -> None:
            self.post(lambda: self._ended(attempt, reason))

        try:
            self._launcher.start(bootstrap, workers, ended)
        except Exception as error:
            ended(f"its workers could not be started: {type(error).__name__}: {error}")

    @property
    def counts_room(self) -> bool:
        return self._launcher.counts_room

    def room(self) -> int | None:
        return self._launcher.room()

    def end(self, attempt: Attempt) -> None:
        for worker in self.workers():
            self._hub.send(attempt, worker, Die(attempt))
        self._hub.drop(attempt)
        self._gathering = None
        self._hearsay = None
        self._launcher.stop(attempt)

    def _ended(self, attempt: Attempt, reason: str) -> None:
        """The launcher has seen a process end, and knows why; its peers may know which."""
        hearsay, self._hearsay = self._hearsay, None
        gone = self._launcher.gone()
        if gone is not None:
            self._leadership.receive(WorkerFailed(attempt, -1, gone))
            return
        if hearsay is not None and hearsay[0].attempt == attempt:
            reason = f"{reason} ({brief(hearsay[0].error)})"
        self._leadership.attempt_lost(attempt, reason)

    def _believe_hearsay(self) -> None:
        """No process has reported more about a worker's end than its peers."""
        if self._hearsay is not None and self._clock.monotonic() >= self._hearsay[1]:
            message, self._hearsay = self._hearsay[0], None
            self._leadership.receive(message)

    def _send(self, worker: int, message: Any) -> None:
        self._hub.send(message.attempt, worker, message)

    # ------------------------------------------------------------ the loop

    def _loop(self) -> None:
        poller = zmq.Poller()
        poller.register(self._hub.socket, zmq.POLLIN)
        poller.register(self._wakeup.listening, zmq.POLLIN)
        self._campaign(self._opened)
        while not self._leadership.is_done:
            poller.poll(self._patience_ms())
            self._leadership.look()
            self._wakeup.quiet()
            # Workers first: what they say of their end says more than what is said of it.
            for message in self._hub.receive():
                self._hear(message)
            while not self._reports.empty():
                self._reports.get()()
            self._believe_hearsay()
            self._check_silence()
            self._leadership.tick()
            self._log_news()

    def _patience_ms(self) -> int:
        due = self._leadership.deadline()
        wait_s = IDLE_S if due is None else due - self._clock.monotonic()
        return math.ceil(min(max(wait_s, 0.0), IDLE_S) * 1000)

    def _hear(self, message: Any) -> None:
        gathering = self._gathering
        if gathering is None or message.attempt != gathering.attempt:
            return
        match message:
            case Ready():
                self._recoveries.restored(message)
                self._leadership.receive(message)
            case Heartbeat(_, worker, _):
                gathering.heard[worker] = self._clock.monotonic()
            case Printed():
                self.insight.output.printed(message)
            case Hello():
                self._welcome(gathering, message)
            case Garbled(_, worker, reason):
                self._leadership.worker_lost(gathering.attempt, worker, reason)
            case WorkerFailed(_, _, LinkError(is_hearsay=True)):
                until = self._clock.monotonic() + self._patience.reason_s
                self._hearsay = self._hearsay or (message, until)
            case _:
                self._leadership.receive(message)

    def _welcome(self, gathering: _Gathering, hello: Hello) -> None:
        """When the last worker has come in, all get the job and the addresses of the others."""
        attempt = gathering.attempt
        if hello.wire_version != WIRE_VERSION:
            error = ProtocolError(
                f"worker {hello.worker} speaks wire version {hello.wire_version}, the driver "
                f"{WIRE_VERSION}. Install the same version of mainstay on driver and executors."
            )
            self._leadership.worker_lost(attempt, hello.worker, str(error))
            return
        if hello.worker in gathering.hellos or not 0 <= hello.worker < gathering.workers:
            reason = f"process {hello.pid} introduced itself as worker {hello.worker}"
            self._leadership.attempt_lost(attempt, f"{reason}, of which there is one or none")
            return
        gathering.hellos[hello.worker] = hello
        if len(gathering.hellos) == gathering.workers:
            self._welcome_all(gathering)

    def _welcome_all(self, gathering: _Gathering) -> None:
        peers = {number: hello.peer for number, hello in gathering.hellos.items()}
        welcome = Welcome(gathering.attempt, gathering.deployment, peers)
        for worker in peers:
            self._hub.send(gathering.attempt, worker, welcome)
            gathering.heard[worker] = self._clock.monotonic()
        gathering.is_complete = True
        self._recoveries.gathered(gathering.attempt, self._clock.wall())

    def _check_silence(self) -> None:
        """Give up workers that never came, or that have not been heard of for long."""
        gathering = self._gathering
        if gathering is None:
            return
        now, patience = self._clock.monotonic(), self._patience
        if not gathering.is_complete:
            if now - gathering.started > patience.start_s:
                reason = gathering.absence(patience.start_s, self._hub.address)
                self._leadership.attempt_lost(gathering.attempt, reason)
            return
        hellos = gathering.hellos
        sightings = [Sighting(n, hellos[n].host, heard) for n, heard in gathering.heard.items()]
        found = silence(sightings, now, patience.silence_s)
        if found is not None:
            # Before the attempt is ended: the next one may be launched with that.
            if found.hosts:
                self._launcher.leave(found.hosts)
            self._leadership.worker_lost(gathering.attempt, found.worker, found.reason)

    # ------------------------------------------------------------ the end

    def _abandon(self) -> None:
        """End workers that nobody has released: the loop itself broke."""
        gathering = self._gathering
        if gathering is not None and not self._leadership.status.is_orderly:
            self.end(gathering.attempt)

    def _close(self) -> None:
        self._closing.close()

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
from dataclasses import dataclass
from typing import Any, Protocol

import zmq

from mainstay.drive.background import Report, ThreadBackground
from mainstay.drive.gathering import Gathering
from mainstay.drive.handle import JobHandle
from mainstay.drive.leadership import Term
from mainstay.drive.lease import LEASE_S
from mainstay.drive.printed import Printed
from mainstay.drive.remote_worker import Bootstrap, Wanted
from mainstay.drive.scaling import Scaling
from mainstay.drive.shipment import Shipment
from mainstay.drive.wakeup import Wakeup
from mainstay.errors import LinkError, ProtocolError, brief, named
from mainstay.ha.election import Election
from mainstay.runtime.connector_errors import with_remote_cause
from mainstay.runtime.coordinator.silence import CutOff, Listening, LostHost, Silence
from mainstay.runtime.coordinator.worker_numbers import files_by_worker
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt, Ready, WorkerFailed
from mainstay.runtime.options import JobOptions
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem
from mainstay.snapshot.object_storage import open_storage
from mainstay.transport.codec import WIRE_VERSION
from mainstay.transport.hub import Die, Garbled, Heartbeat, Hello, Hub

IDLE_S = 0.1


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
        self._gathering: Gathering | None = None
        self._hearsay: tuple[WorkerFailed, float] | None = None
        """What a worker says of the end of another, and how long that is kept back."""
        self._cut_off: CutOff | None = None
        """While no worker is heard of on any host."""
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
        return {} if gathering is None else gathering.places()

    # ------------------------------------------------------------ cluster

    def launch(self, deployment: Deployment) -> None:
        self._launching(deployment)
        attempt, workers = deployment.attempt, deployment.job.workers
        bootstrap = self._bootstrap(deployment)
        listening = Listening(self._patience.silence_s, self._patience.lease_s)
        now = self._clock.monotonic()
        self._gathering = Gathering(attempt, workers, Shipment(deployment), now, listening)
        self._cut_off = None

        def ended(reason: str) -> None:
            self.post(lambda: self._ended(attempt, reason))

        try:
            self._launcher.start(bootstrap, workers, ended)
        except Exception as error:
            ended(f"its workers could not be started: {named(error)}")

    def _bootstrap(self, deployment: Deployment) -> Bootstrap:
        copies = self._options.snapshots.local_recovery.of_processes(self._storage)
        workers = deployment.job.workers
        files = files_by_worker(deployment.restored, workers) if copies is not None else ()
        return Bootstrap(
            deployment.attempt,
            self._hub.address,
            self._hub.admit(deployment.attempt),
            self._storage,
            self._patience.lease_s,
            self._launcher.shares_terminal,
            copies,
            Wanted(deployment.lineage, files),
        )

    @property
    def counts_room(self) -> bool:
        return self._launcher.counts_room

    def room(self) -> int | None:
        return self._launcher.room()

    def end(self, attempt: Attempt) -> None:
        if self._gathering is not None:
            for process in self._gathering.hellos:
                self._hub.send(attempt, process, Die(attempt))
        self._hub.drop(attempt)
        self._gathering = None
        self._hearsay = None
        self._cut_off = None
        self._launcher.stop(attempt)

    def _ended(self, attempt: Attempt, reason: str) -> None:
        """The launcher has seen a process end, and knows why; its peers may know which."""
        # It may have said why since the loop has last listened, which can be a while ago.
        for message in self._hub.receive():
            self._hear(message)
        hearsay, self._hearsay = self._hearsay, None
        gone = self._launcher.gone()
        if gone is not None:
            self._leadership.receive(WorkerFailed(attempt, -1, gone))
            return
        if hearsay is not None and hearsay[0].attempt == attempt:
            reason = f"{reason} ({brief(hearsay[0].error)})"
        if self._cut_off is not None:
            reason = f"no worker was heard of for {self._cut_off.silent_s:.0f} s; then {reason}"
        self._leadership.attempt_lost(attempt, reason)

    def _believe_hearsay(self) -> None:
        """No process has reported more about a worker's end than its peers."""
        if self._hearsay is not None and self._clock.monotonic() >= self._hearsay[1]:
            message, self._hearsay = self._hearsay[0], None
            self._leadership.receive(message)

    def _send(self, worker: int, message: Any) -> None:
        gathering = self._gathering
        # Workers of an attempt that has ended were told to die.
        if gathering is not None and gathering.attempt == message.attempt:
            process = gathering.processes.get(worker)
            if process is not None:
                self._hub.send(message.attempt, process, message)

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
            case Heartbeat(_, process, _):
                gathering.heard(process, self._clock.monotonic())
            case Printed():
                self.insight.output.printed(message)
            case Hello():
                self._welcome(gathering, message)
            case Garbled():
                self._process_lost(gathering, message.process, message.reason)
            case WorkerFailed(_, _, LinkError(is_hearsay=True)):
                until = self._clock.monotonic() + self._patience.reason_s
                self._hearsay = self._hearsay or (message, until)
            case WorkerFailed(_, _, error):
                with_remote_cause(error)
                self._leadership.receive(message)
            case _:
                self._leadership.receive(message)

    def _process_lost(self, gathering: Gathering, process: int, reason: str) -> None:
        worker = gathering.worker(process)
        if worker is not None:
            self._leadership.worker_lost(gathering.attempt, worker, reason)
        else:
            self._leadership.attempt_lost(gathering.attempt, f"process {process}: {reason}")

    def _welcome(self, gathering: Gathering, hello: Hello) -> None:
        """When the last has come in, all get their numbers, the job and each other's addresses."""
        attempt = gathering.attempt
        if hello.wire_version != WIRE_VERSION:
            error = ProtocolError(
                f"a worker speaks wire version {hello.wire_version}, the driver "
                f"{WIRE_VERSION}. Install the same version of mainstay on driver and executors."
            )
            self._process_lost(gathering, hello.process, str(error))
            return
        if not gathering.takes(hello):
            reason = f"process {hello.pid} introduced itself as number {hello.process}"
            self._leadership.attempt_lost(attempt, f"{reason}, of which there is one or none")
            return
        for process, welcome in gathering.welcomes(self._clock.monotonic()).items():
            self._hub.send(attempt, process, welcome)
        if gathering.is_complete:
            self._recoveries.gathered(attempt, self._clock.wall())

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
        found = gathering.listening.judge(gathering.sightings(), now)
        self._cut_off = found if isinstance(found, CutOff) else None
        if isinstance(found, Silence):
            # Before the attempt is ended: the next one may be launched with that.
            if found.hosts:
                self._launcher.leave(found.hosts)
            self._leadership.worker_lost(gathering.attempt, found.worker, found.reason)

    def _waits(self) -> list[Problem]:
        cut_off = self._cut_off
        if cut_off is None:
            return []
        what = f"has heard of no worker on any of {cut_off.hosts} hosts"
        why = "it may be cut off from them, and waits for as long as they wait for it"
        return [Problem("the driver", what, why, cut_off.silent_s)]

    # ------------------------------------------------------------ the end

    def _abandon(self) -> None:
        """End workers that nobody has released: the loop itself broke."""
        gathering = self._gathering
        if gathering is not None and not self._leadership.status.is_orderly:
            self.end(gathering.attempt)

    def _close(self) -> None:
        self._closing.close()

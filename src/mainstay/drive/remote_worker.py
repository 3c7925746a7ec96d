"""A worker in a process of its own: introduces itself to the hub, links up, and runs.

It says hello under the number that its process was started with, and what its host has of the job's
state. The answer says which worker it is.

It ends in one of four ways: released by the coordinator (returns), by an error of its own (tells
the coordinator, waits until it was heard, then raises), ended by the hub, or when the hub is
silent for too long (both exit at once). A process that returns may be used for something else:
nothing of the worker stays in it.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import queue
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import cloudpickle
import zmq

from mainstay.drive.background import Report, ThreadBackground, end_threads
from mainstay.drive.calls import ThreadCalls
from mainstay.drive.clock import SystemClock
from mainstay.drive.lease import LEASE_S, Lease, Progress, leave
from mainstay.drive.printed import WaitingLines
from mainstay.drive.process import settled_process
from mainstay.drive.shipment import unpacked
from mainstay.drive.tee import end_lines, listening
from mainstay.drive.wakeup import Wakeup
from mainstay.errors import LinkError, SparkSetupError, UserFunctionError, named
from mainstay.native.kernels import NumbaKernels
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt, ChannelId, Release, Released, WorkerFailed
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.worker.worker import Worker
from mainstay.snapshot.copied_storage import metered
from mainstay.snapshot.landmark import require_landmark
from mainstay.snapshot.local_copies import CopySettings, LocalCopies, open_copies
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage, is_remote
from mainstay.tracebacks import (
    CARRIED,
    carried_traceback,
    carry_traceback,
    interrupts_left_to_others,
    reportable,
)
from mainstay.transport.address import place, reach
from mainstay.transport.codec import WIRE_VERSION, decode, encode
from mainstay.transport.hub import Die, Hello, Welcome, identity
from mainstay.transport.keys import AttemptKeys, present
from mainstay.transport.links import Links
from mainstay.transport.watch import Watch

IDLE_S = 0.05
START_S = 60.0
FAREWELL_S = 3.0
THREADS_END_S = 10.0


NOT_YET = -1
"""The number of a worker that has been given none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The state files that the workers are going to read, by number, and of which history."""

    lineage: str
    files: tuple[tuple[FileRef, ...], ...]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What a worker's process is given to begin with."""

    attempt: int
    hub_address: str
    keys: AttemptKeys
    storage: str
    lease_s: float = LEASE_S
    shares_terminal: bool = False
    """Whether what the process prints would reach the terminal of the driver by itself."""
    copies: CopySettings | None = None
    """Where its host keeps copies of state files, if it does."""
    wanted: Wanted = Wanted("", ())


class RemoteWorker:
    """One worker, its links and its threads, in this process."""

    def __init__(self, bootstrap: Bootstrap, process: int, host: str) -> None:
        self._bootstrap = bootstrap
        self._process = process
        self._number = NOT_YET
        self._host = host
        self._attempt = Attempt(bootstrap.attempt)
        self._progress = Progress()
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._schemas: dict[ChannelId, Any] = {}
        self._is_released = False
        self._worker: Worker | None = None
        self._lines = WaitingLines(self._attempt, NOT_YET, self._tell)
        self.has_reported = False
        """Whether the coordinator has heard why the worker failed."""

    def run(self) -> None:
        """From the greeting to the end. What was opened is closed, the last first."""
        with contextlib.ExitStack() as closing:
            closing.enter_context(interrupts_left_to_others())
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            closing.callback(context.term)
            self._connect_to_hub(context, closing)
            # The driver shows the lines; they are printed here as well where that is another place.
            is_printed = not self._bootstrap.shares_terminal
            closing.enter_context(listening(self._lines.add, to_all=True, is_printed=is_printed))
            lease = self._start_lease(closing)
            try:
                self._work(context, closing, lease)
            except BaseException as raised:
                error = reportable(raised)
                # From here on the end of the attempt is no news, and must not cut this short.
                lease.stop()
                self._report(error)
                if not self._is_released:
                    raise error from raised.__cause__

    # ------------------------------------------------------------ beginning

    def _connect_to_hub(
        self, context: zmq.Context[zmq.Socket[bytes]], closing: contextlib.ExitStack
    ) -> None:
        keys, address = self._bootstrap.keys, self._bootstrap.hub_address
        self._hub = context.socket(zmq.DEALER)
        closing.callback(self._hub.close)
        self._hub.sndhwm = self._hub.rcvhwm = 0
        self._hub.linger = int(FAREWELL_S * 1000)
        self._hub.routing_id = identity(b"w", self._attempt, self._process)
        present(self._hub, keys.worker, keys.hub_public)
        self._hub_watch = Watch(self._hub)
        closing.callback(self._hub_watch.close)
        reach(self._hub, address)

    def _start_lease(self, closing: contextlib.ExitStack) -> Lease:
        bootstrap = self._bootstrap
        lease = Lease(
            bootstrap.hub_address,
            bootstrap.keys,
            bootstrap.attempt,
            self._process,
            self._progress,
            bootstrap.lease_s,
            is_greeting=True,
        )
        lease.start()
        closing.callback(lease.stop)
        return lease

    def _work(
        self, context: zmq.Context[zmq.Socket[bytes]], closing: contextlib.ExitStack, lease: Lease
    ) -> None:
        self._links = Links(context, self._host, place(), self._bootstrap.keys)
        closing.callback(self._links.close)
        copies = self._open_copies()
        welcome = self._greet(self._held_bytes(copies), lease)
        self._number = self._lines.worker = welcome.worker
        self._links.connect(welcome.worker, welcome.peers, START_S)
        self._wakeup = Wakeup()
        closing.callback(self._wakeup.close)
        pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="mainstay")
        closing.callback(self._end_threads, pool)
        closing.enter_context(settled_process())
        self._run(self._loaded(welcome), pool, copies)

    def _open_copies(self) -> LocalCopies | None:
        settings, lineage = self._bootstrap.copies, self._bootstrap.wanted.lineage
        return None if settings is None else open_copies(settings, lineage, self._bootstrap.storage)

    def _held_bytes(self, copies: LocalCopies | None) -> tuple[int, ...]:
        """How much of what each worker is going to read this host has."""
        if copies is None:
            return ()
        return tuple(copies.held_bytes(files) for files in self._bootstrap.wanted.files)

    def _loaded(self, welcome: Welcome) -> Deployment:
        try:
            return unpacked(welcome.deployment, welcome.restored)
        except BaseException as error:
            raise SparkSetupError(
                f"worker {self._number} cannot load the job's program: {type(error).__name__}: "
                f"{error}. What the program imports must be installed where the workers run; "
                "modules of your own can be sent: with --py-files of spark-submit, and over Spark "
                "Connect with session.addArtifacts(path, pyfile=True) before the job starts."
            ) from error

    def _greet(self, held_bytes: tuple[int, ...], lease: Lease) -> Welcome:
        """Introduce this process, and wait until all have come in. It is the coordinator who knows
        which are missing, and gives them up."""
        self._tell(
            Hello(
                self._attempt,
                self._process,
                WIRE_VERSION,
                os.getpid(),
                self._host,
                self._links.own,
                held_bytes,
            )
        )
        while True:
            message = self._await_word(START_S)
            if message is None and not lease.has_begun:
                raise LinkError(
                    f"process {self._process} on {self._host} got no answer from the coordinator "
                    f"at {self._bootstrap.hub_address} within {START_S} s. Executors must be able "
                    "to open connections to the driver; Environment(coordinator_host=...) says "
                    "under which name or address they reach it."
                )
            if isinstance(message, Die):
                leave(f"attempt {self._attempt} is over", is_told=True)
            if isinstance(message, Welcome):
                lease.begin()
                return message

    def _await_word(self, timeout_s: float) -> Any:
        """The next message of the coordinator; None when there is none in time."""
        poller = zmq.Poller()
        poller.register(self._hub, zmq.POLLIN)
        poller.register(self._hub_watch.socket, zmq.POLLIN)
        ready = dict(poller.poll(int(timeout_s * 1000)))
        if self._hub in ready:
            return decode(self._hub.recv_multipart(), self._schema_of)
        self._require_hub()
        return None

    def _require_hub(self) -> None:
        if self._hub_watch.has_ended():
            leave(f"attempt {self._attempt} has no coordinator any more")

    def _schema_of(self, channel: ChannelId) -> Any:
        return self._schemas[channel]

    # ------------------------------------------------------------ the loop

    def _run(
        self, deployment: Deployment, pool: ThreadPoolExecutor, copies: LocalCopies | None
    ) -> None:
        self._schemas = _schemas(deployment, self._number)
        background = ThreadBackground(pool, self._reports, self._wakeup)
        storage = metered(self._open_storage(deployment), copies)
        calls = ThreadCalls(background)
        ports = Ports(
            SystemClock(),
            background,
            self._send,
            storage,
            open_storage,
            get_ident,
            calls,
            storage,
            NumbaKernels(),
        )
        worker = self._worker = Worker(deployment, self._number, ports)
        poller = self._links.poller()
        poller.register(self._hub, zmq.POLLIN)
        poller.register(self._hub_watch.socket, zmq.POLLIN)
        poller.register(self._wakeup.listening, zmq.POLLIN)
        has_more = True
        while not worker.released:
            self._progress.passes += 1
            ready = dict(poller.poll(0 if has_more else self._patience_ms(worker, ports)))
            has_news = self._hear(worker, ready)
            self._lines.send_if_due(ports.clock.monotonic())
            has_more = not worker.released and (worker.step(self._hear_hub) or has_news)
        self._is_released = True

    def _open_storage(self, deployment: Deployment) -> Storage:
        place, landmark = self._bootstrap.storage, deployment.landmark
        storage = open_storage(place)
        if landmark is not None and not is_remote(place):
            require_landmark(storage, landmark, place, self._host)
        return storage

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
        has_news = self._hear_hub()
        if not worker.released:
            self._require_hub()
            for message in self._links.receive(ready, self._schema_of):
                worker.receive(message)
        return has_news or bool(ready)

    def _hear_hub(self) -> bool:
        """Take what the coordinator has said; whether there was something."""
        worker, has_news = self._worker, False
        assert worker is not None
        while not worker.released and self._hub.poll(0):
            message = decode(self._hub.recv_multipart(), self._schema_of)
            if isinstance(message, Die):
                leave(f"attempt {self._attempt} is over", is_told=True)
            worker.receive(message)
            has_news = True
        return has_news

    def _send(self, to: int, message: Any) -> None:
        if to == COORDINATOR:
            if isinstance(message, Released):
                self._send_lines()  # after it nobody listens
            self._tell(message)
        else:
            self._links.send(to, message)

    def _tell(self, message: Any) -> None:
        try:
            self._hub.send_multipart(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            # There is no bound on what it takes: only a connection that was refused takes nothing.
            leave(f"attempt {self._attempt} has no coordinator any more")

    # ------------------------------------------------------------ ends

    def _report(self, error: Exception) -> None:
        """Say what went wrong, and wait until it was heard.

        Whatever supervises this process tells the coordinator of its end, and the others of their
        lost links; both must come after the reason. A worker that was released before has lost
        its links because the others were, too: that is no failure.
        """
        self._send_lines()
        self._tell(WorkerFailed(self._attempt, self._number, portable(error)))
        message = self._await_word(FAREWELL_S)
        while message is not None and not isinstance(message, Die | Release):
            message = self._await_word(FAREWELL_S)
        self.has_reported = message is not None
        self._is_released = isinstance(message, Release) and isinstance(error, LinkError)
        if self._is_released and self._worker is not None:
            self._worker.receive(message)

    def _send_lines(self) -> None:
        """Send all that was printed, before the end of this worker is told."""
        end_lines()
        self._lines.send_all()

    def _end_threads(self, pool: ThreadPoolExecutor) -> None:
        """Wait for the threads of a released worker: they must not go on beside the next task.

        After an error the process ends anyway, and nothing may hold that up.
        """
        if not self._is_released:
            pool.shutdown(wait=False, cancel_futures=True)
            return
        if not end_threads(pool, THREADS_END_S):
            leave(f"work of attempt {self._attempt} does not end within {THREADS_END_S} s")


def _schemas(deployment: Deployment, number: int) -> dict[ChannelId, Any]:
    return {
        channel: edge.schema
        for task in deployment.job.tasks
        if number < task.parallelism
        for edge in task.inputs
        for channel, _ in edge.incoming(number)
    }


def portable(error: Exception) -> Exception:
    """The error itself where it can be sent, otherwise what it says; its traceback goes along."""
    carry_traceback(error)
    if isinstance(error, UserFunctionError):
        error.original = _packed(error.original)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        told = RuntimeError(named(error))
        setattr(told, CARRIED, carried_traceback(error))
        return told
    return error


def _packed(error: BaseException | None) -> bytes | None:
    """An exception of the author's, if it can be pickled: many cannot."""
    try:
        packed: bytes = cloudpickle.dumps(error)
    except Exception:
        return None
    return packed

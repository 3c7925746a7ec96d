"""The embedded drive: coordinator and workers in one thread of this process, in real time.

It runs the same core as any other drive, with real storage and real clocks, and needs nothing
but this process: for development, for examples, and to measure the core by itself.
"""

from __future__ import annotations

import pickle
import queue
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Any

import cloudpickle

from mainstay.drive.background import Report, ThreadBackground
from mainstay.drive.calls import ThreadCalls
from mainstay.drive.handle import JobHandle
from mainstay.drive.leadership import Term
from mainstay.drive.printed import PrintedLine
from mainstay.drive.scaling import Scaling
from mainstay.drive.tee import listening
from mainstay.ha.election import Election
from mainstay.native.kernels import NumbaKernels
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt, Ready, Release, WorkerFailed
from mainstay.runtime.options import (
    JobOptions,
    RestartOptions,
    RestoreOptions,
    SnapshotOptions,
)
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.runtime.worker.worker import Worker
from mainstay.snapshot.copied_storage import with_copies
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage
from mainstay.tracebacks import reportable

IDLE_S = 0.05


@dataclass(slots=True, eq=False)
class _Process:
    """A worker and what belongs to it."""

    worker: Worker
    background: ThreadBackground
    mailbox: deque[Any] = field(default_factory=deque)


class EmbeddedJob(JobHandle):
    """A job that runs in a thread of this process."""

    runs_functions = True

    def __init__(
        self,
        name: str,
        spec: JobSpec,
        options: JobOptions,
        storage: Storage,
        scaling: Scaling | None = None,
        election: Election | None = None,
        place: str = "",
    ) -> None:
        super().__init__(name, spec, options, scaling, election, place)
        self._storage = storage
        self._directory = place
        # Not a SimpleQueue: get() of Python 3.11 waits for ever where its time is up in a moment.
        self._reports: queue.Queue[Report] = queue.Queue()
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix=f"mainstay-{name}")
        self._inbox: deque[Any] = deque()
        self._processes: dict[tuple[int, int], _Process] = {}
        self._start()

    def _term(self) -> Term:
        background = ThreadBackground(self._pool, self._reports)
        return self._lead(background, self._send_to_worker, self._storage, self)

    def post(self, report: Report) -> None:
        self._reports.put(report)

    def crash_worker(self, number: int) -> None:
        """Drop a worker with everything it holds, as if its process had been killed."""
        self._reports.put(lambda: self._crash_worker(number))

    # ------------------------------------------------------------ cluster

    counts_room = False

    def room(self) -> int:
        raise NotImplementedError("workers of this process need no room")

    def launch(self, deployment: Deployment) -> None:
        self._launching(deployment)
        program = cloudpickle.dumps(deployment.job)
        for number in range(deployment.job.workers):
            try:
                self._launch(deployment, program, number)
            except BaseException as error:
                # Without state to restore, functions are opened at once.
                self._failed((deployment.attempt, number), error)
        self._recoveries.gathered(deployment.attempt, self._clock.wall())

    def _launch(self, deployment: Deployment, program: bytes, number: int) -> None:
        background = ThreadBackground(self._pool, self._reports)
        calls = ThreadCalls(background)
        settings, place = self._options.snapshots.local_recovery.embedded(), self._directory
        storage = with_copies(self._storage, place, settings, deployment.lineage)
        ports = Ports(
            self._clock,
            background,
            self._send,
            storage,
            open_storage,
            get_ident,
            calls,
            storage,
            NumbaKernels(),
        )
        own = replace(deployment, job=pickle.loads(program))
        worker = Worker(own, number, ports)
        self._processes[(deployment.attempt, number)] = _Process(worker, background)

    def end(self, attempt: Attempt) -> None:
        for address in [address for address in self._processes if address[0] == attempt]:
            # This process goes on: what a worker holds has to be given back.
            release = Release(attempt, in_good_order=False)
            self._processes[address].worker.receive(release)
            self._end(address)

    def _failed(self, address: tuple[int, int], error: BaseException) -> None:
        failed = WorkerFailed(Attempt(address[0]), address[1], reportable(error))
        self._inbox.append(failed)
        self._end(address)

    def _end(self, address: tuple[int, int]) -> None:
        process = self._processes.pop(address, None)
        if process is not None:
            process.background.close()

    def _crash_worker(self, number: int) -> None:
        attempt = Attempt(max((attempt for attempt, _ in self._processes), default=0))
        if (attempt, number) in self._processes:
            self._end((attempt, number))
            self._leadership.worker_lost(attempt, number, "it was killed")

    def _send(self, to: int, message: Any) -> None:
        if to == COORDINATOR:
            self._inbox.append(message)
        else:
            self._send_to_worker(to, message)

    def _send_to_worker(self, number: int, message: Any) -> None:
        process = self._processes.get((message.attempt, number))
        if process is not None:
            process.mailbox.append(message)

    # ------------------------------------------------------------ the loop

    def _loop(self) -> None:
        self._campaign(self._storage)
        # It is printed where the program prints; here it is kept.
        with listening(self._printed, to_all=False):
            while not self._leadership.is_done:
                if not self._pass():
                    self._await_something()

    def _printed(self, line: PrintedLine) -> None:
        if line.subtask is not None and (attempts := self._leadership.attempts):
            self.insight.output.keep(attempts[-1].attempt, line.subtask, line)

    def _close(self) -> None:
        self._end_pool(self._pool)

    def _pass(self) -> bool:
        """One pass over everything; False when there was nothing to do."""
        self._leadership.look()
        progressed = self._take_reports()
        for address, process in list(self._processes.items()):
            progressed = self._step(address, process) or progressed
        while self._inbox:
            message = self._inbox.popleft()
            if isinstance(message, Ready):
                self._recoveries.restored(message)
            self._leadership.receive(message)
            progressed = True
        self._leadership.tick()
        self._log_news()
        return progressed

    def _take_reports(self) -> bool:
        progressed = False
        while not self._reports.empty():
            self._reports.get()()
            progressed = True
        return progressed

    def _step(self, address: tuple[int, int], process: _Process) -> bool:
        try:
            had_mail = bool(process.mailbox)
            while process.mailbox:
                process.worker.receive(process.mailbox.popleft())
            if process.worker.released:
                self._end(address)
                return True
            return process.worker.step() or had_mail
        except BaseException as error:
            # This thread gets no signals: an interrupt is of the job's own code, too.
            self._failed(address, error)
            return True

    def _await_something(self) -> None:
        deadlines = [self._leadership.deadline()]
        deadlines += [process.worker.deadline() for process in self._processes.values()]
        due = min((time for time in deadlines if time is not None), default=None)
        wait = IDLE_S if due is None else due - self._clock.monotonic()
        try:
            self._reports.get(timeout=min(max(wait, 0.0001), IDLE_S))()
        except queue.Empty:
            return


def start_embedded(
    name: str,
    spec: JobSpec,
    *,
    directory: str,
    snapshots: SnapshotOptions,
    restart: RestartOptions,
    restore: RestoreOptions,
    tuning: Tuning | None = None,
    scaling: Scaling | None = None,
    election: Election | None = None,
) -> EmbeddedJob:
    """Start a job in this process."""
    options = JobOptions(name, name, snapshots, restart, restore, tuning or Tuning())
    return EmbeddedJob(name, spec, options, open_storage(directory), scaling, election, directory)

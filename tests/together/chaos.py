"""Does what the plan says, each event at its moment, in a thread of its own."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.together.around import PATIENCE_S, Act, Skipped
from tests.together.asking import Clients
from tests.together.jobs import NotDoneError, TogetherJob
from tests.together.plan import Planned
from tests.together.processes import executors_of, workers_of
from tests.together.storage import BusyDiskError

LOG = logging.getLogger("together")
MOST_VERSIONS = 6


class Chaos:
    """``done`` counts events by kind, ``skipped`` those that met nobody or were refused."""

    def __init__(
        self,
        jobs: Sequence[TogetherJob],
        cluster: Path,
        savepoints: Path,
        clients: Clients,
        around: Mapping[str, Act],
    ) -> None:
        """``around`` is what may be done to what is around the jobs."""
        self.done: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.findings: list[str] = []
        self._jobs = {job.name: job for job in jobs}
        self._cluster = cluster
        self._clients = clients
        self._savepoints = savepoints
        self._threads: list[threading.Thread] = []
        self._acts: dict[str, Act] = {
            "kill worker": self._kill_worker,
            "kill executor": self._kill_executor,
            "kill driver": self._kill_driver,
            "freeze worker": self._freeze_worker,
            "freeze driver": self._freeze_driver,
            "rescale": self._rescale,
            "savepoint": self._savepoint,
            "restart": lambda _, job: self._restart(job, None, False),
            "restart from a savepoint": lambda _, job: self._restart(job, self._place(job), False),
            "upgrade": lambda _, job: self._restart(job, None, True),
            "upgrade from a savepoint": lambda _, job: self._restart(job, self._place(job), True),
            "start a client": lambda *_: self._clients.start(),
            "stop a client": lambda *_: self._clients.stop_one(),
        }
        self._acts |= around

    def run(self, events: Sequence[Planned]) -> None:
        """Until the last event has begun; ``join`` waits for the end of all."""
        began = time.monotonic()
        for event in events:
            threading.Event().wait(max(0.0, began + event.at_s - time.monotonic()))
            thread = threading.Thread(target=self._act, args=(event,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def join(self, timeout_s: float = 2 * PATIENCE_S) -> None:
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.findings.append("something that was begun does not come to its end")

    def _act(self, event: Planned) -> None:
        LOG.info("%s", event)
        try:
            self._acts[event.kind](event, self._jobs[event.job])
        except (Skipped, NotDoneError, BusyDiskError) as reason:
            self.skipped[event.kind] += 1
            LOG.info("%s of %s was not done: %s", event.kind, event.job, reason)
        except Exception as error:
            LOG.exception("%s", event)
            self.findings.append(f"{event}: {error!r}")
        else:
            self.done[event.kind] += 1
            LOG.info("%s of %s is over", event.kind, event.job)

    # ------------------------------------------------------------ processes

    def _worker(self, event: Planned, job: TogetherJob) -> psutil.Process:
        return _one(workers_of(self._cluster, job), event.whom)

    def _kill_worker(self, event: Planned, job: TogetherJob) -> None:
        _send(self._worker(event, job), signal.SIGKILL)

    def _kill_executor(self, event: Planned, job: TogetherJob) -> None:
        _send(_one(executors_of(self._cluster, job), event.whom), signal.SIGKILL)

    def _kill_driver(self, event: Planned, job: TogetherJob) -> None:
        driver = _one([each for each in job.drivers if each.url], event.whom)
        _send(psutil.Process(driver.process.pid), signal.SIGKILL)

    def _freeze_worker(self, event: Planned, job: TogetherJob) -> None:
        _freeze([self._worker(event, job)], event.lasts_s)

    def _freeze_driver(self, event: Planned, job: TogetherJob) -> None:
        """The program with its JVM, as a machine that is paused."""
        driver = _one([each for each in job.drivers if each.url], event.whom)
        program = psutil.Process(driver.process.pid)
        _freeze([program, *program.children(recursive=True)], event.lasts_s)

    # ------------------------------------------------------------ requests

    def _rescale(self, event: Planned, job: TogetherJob) -> None:
        choices = [number for number in (1, 2, 3) if number != job.parallelism]
        job.rescale(_one(choices, event.whom))

    def _place(self, job: TogetherJob) -> Path:
        return self._savepoints / f"{job.name}-{len(job.savepoints)}-{time.monotonic_ns()}"

    def _savepoint(self, event: Planned, job: TogetherJob) -> None:
        job.savepoint(self._place(job))

    def _restart(self, job: TogetherJob, path: Path | None, upgrade: bool) -> None:
        upgrade = upgrade and job.version < MOST_VERSIONS
        LOG.info("%s goes on %s", job.name, job.restart(path, upgrade=upgrade))


def _one(among: Sequence[Any], whom: float) -> Any:
    if not among:
        raise Skipped("there is nobody")
    return among[int(whom * len(among))]


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess as error:
        raise Skipped(str(error)) from error


def _freeze(processes: Sequence[psutil.Process], seconds: float) -> None:
    frozen = []
    try:
        for process in processes:
            _send(process, signal.SIGSTOP)
            frozen.append(process)
        threading.Event().wait(seconds)
    finally:
        for process in frozen:
            if process.is_running():
                _send(process, signal.SIGCONT)

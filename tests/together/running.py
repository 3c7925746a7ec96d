"""The jobs while they run, with all that is done to them, until they have read all there is."""

from __future__ import annotations

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tests.together.answers import AnswerBook
from tests.together.asking import Clients
from tests.together.chaos import Chaos
from tests.together.jobs import TogetherJob
from tests.together.model import Prefixes, Rows
from tests.together.plan import Planned
from tests.together.report import Report

LOG = logging.getLogger("together")
FIRST_EPOCH_S = 600.0
END_S = 900.0


class Running:
    """What is the same whatever is below: a cluster with its services, or processes and folders."""

    seed: int
    jobs: Sequence[TogetherJob]
    books: dict[str, AnswerBook]
    clients: Clients
    chaos: Chaos
    prefixes: Prefixes
    first_epochs = 1
    """So many each job has completed before anything is done to it."""
    spared: str | None = None
    """Why the disks are left alone."""

    # ------------------------------------------------------------ what is below

    @abstractmethod
    def amounts(self) -> tuple[int, int]:
        """How many events and moves there are."""

    @abstractmethod
    def output(self, job: TogetherJob, name: str) -> Rows:
        """What has come out, read from outside."""

    @abstractmethod
    def begin(self) -> None:
        """The input begins."""

    @abstractmethod
    def watch(self) -> None:
        """All runs: resources are looked at from now on."""

    @abstractmethod
    def end(self) -> None:
        """There is no more input, and nobody looks any more."""

    def finish(self) -> None:
        """Have the jobs come to an end with the input."""
        for job in self.jobs:
            job.finish()

    @abstractmethod
    def judged(self, minutes: float) -> Report:
        """All that is not as it must be."""

    # ------------------------------------------------------------ running

    def run(self, minutes: float, events: Sequence[Planned]) -> Report:
        try:
            self._run(minutes, events)
        except TimeoutError as error:
            report = Report(self.seed, minutes, self.chaos.done, self.chaos.skipped, None)
            report.differences = [str(error), *self.chaos.findings, *self.clients.findings]
            return report
        return self.judged(minutes)

    def _run(self, minutes: float, events: Sequence[Planned]) -> None:
        with self._minding():
            self.begin()
            for job in self.jobs:
                job.start()
            self._await(self._have_begun, FIRST_EPOCH_S)
            self.clients.start()
            self.clients.start()
            self.watch()
            began = time.monotonic()
            self.chaos.run(events)
            threading.Event().wait(max(0.0, began + minutes * 60 - time.monotonic()))
            self._come_to_an_end()

    def _have_begun(self) -> bool:
        return all(len(job.log.epochs) >= self.first_epochs for job in self.jobs)

    def _come_to_an_end(self) -> None:
        """Everything works again; the rest of the input is read, and the jobs finish."""
        LOG.info("the end: what was begun is waited for")
        self.chaos.join()
        self.end()
        self.finish()
        self._await(lambda: all(job.has_finished for job in self.jobs), END_S)
        self.clients.end()
        for job in self.jobs:
            self._await(lambda job=job: not any(d.is_alive for d in job.drivers), END_S)

    @contextmanager
    def _minding(self) -> Iterator[None]:
        """Drivers that die are started again, and logs are read before they are cut."""
        ended = threading.Event()

        def mind() -> None:
            while not ended.wait(0.5):
                for job in self.jobs:
                    self._mind(job)

        thread = threading.Thread(target=mind, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _mind(self, job: TogetherJob) -> None:
        job.log.read()
        try:
            job.mind()
        except OSError as error:
            job.findings.append(f"a driver of {job.name} cannot be started: {error!r}")

    def _await(self, what: Callable[[], bool], timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while not what():
            if time.monotonic() > until:
                raise TimeoutError(f"not within {timeout_s} s: {self._told()}")
            threading.Event().wait(0.2)

    def _told(self) -> str:
        return "; ".join(
            f"{job.name}: {len(job.log.epochs)} epochs, newest {job.log.newest}, {job.findings}"
            for job in self.jobs
        )

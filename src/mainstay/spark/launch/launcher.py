"""The Spark launcher: an attempt is one Spark job in barrier mode, started from a thread.

Spark places, starts, supervises and kills the workers. The job has one result stage, so Spark
does not retry it: what comes after a failure is the coordinator's to decide.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import cloudpickle
from pyspark import BarrierTaskContext

from mainstay.drive.remote_worker import Bootstrap, RemoteWorker
from mainstay.errors import SessionStoppedError
from mainstay.runtime.coordinator.silence import LostHost
from mainstay.spark.launch.cluster import Cluster
from mainstay.spark.launch.reservations import Reservation, promised
from mainstay.spark.launch.spark_errors import summary
from mainstay.spark.launch.tasks import Main
from mainstay.transport.address import LOOPBACK

CLOSE_S = 30.0
SLOTS_S = 120.0
"""How long slots are waited for before Spark is asked all the same, and says what it lacks."""
LEAVE_S = 5.0
"""How long an attempt waits for Spark to confirm that it has left the hosts that are lost."""
_LOOK_S = 0.1

_log = logging.getLogger("mainstay")


class SparkLauncher:
    """Starts attempts on the cluster of one Spark session."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        reservation: Reservation | None = None,
        queries: int = 0,
    ) -> None:
        """``queries`` run beside the workers, in a slot each at least."""
        self._cluster = cluster
        self._queries = queries
        self._lost: list[LostHost] = []
        self._leaving = threading.Lock()
        self._reservation = reservation
        self._name = name
        self._id = uuid.uuid4().hex
        self._threads: dict[int, threading.Thread] = {}
        self._stops: dict[int, threading.Event] = {}
        self.shares_terminal = cluster.is_local
        self.host = cluster.host
        cluster.prepare()

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        before = [thread for thread in self._threads.values() if thread.is_alive()]
        main = _main(cloudpickle.dumps(bootstrap), LOOPBACK if self._cluster.is_local else None)
        stopped = self._stops[bootstrap.attempt] = threading.Event()

        def run() -> None:
            # First of all: Spark would start workers there for as long as it knows of nothing.
            self._leave_lost()
            # The slots of the last attempt are free only when its job has ended.
            for thread in before:
                thread.join()
            try:
                self._await_slots(workers, stopped)
                if stopped.is_set():
                    ended("it was stopped before its Spark job was submitted")
                    return
                group = self._group(bootstrap.attempt)
                if self._reservation is not None:
                    self._reservation.group = group
                description = f"mainstay: {self._name}, attempt {bootstrap.attempt}"
                self._cluster.run_barrier(main, workers, group, description)
                ended("its Spark job has ended")
            except Exception as error:
                # Once the session is stopped, nothing that Spark says of it means anything.
                ended(f"its Spark job has failed: {summary(str(error)) or type(error).__name__}")

        thread = threading.Thread(
            target=run, name=f"mainstay-spark-{bootstrap.attempt}", daemon=True
        )
        self._threads[bootstrap.attempt] = thread
        thread.start()

    def _await_slots(self, workers: int, stopped: threading.Event) -> None:
        """Wait until Spark has as many slots as workers: an executor that died is replaced.

        Spark looks for them only every 15 s once a barrier job has found too few.
        """
        until = time.monotonic() + SLOTS_S
        while self._has_too_few(workers) and time.monotonic() < until:
            if stopped.wait(_LOOK_S):
                return

    def _has_too_few(self, workers: int) -> bool:
        slots = self._cluster.slots()
        return slots is not None and slots.total < workers

    # ------------------------------------------------------------ hosts that are lost

    def leave(self, hosts: Sequence[LostHost]) -> None:
        if not self._cluster.is_local:
            self._lost.extend(hosts)

    def _leave_lost(self) -> None:
        with self._leaving:
            lost, self._lost = self._lost, []
            for host in lost:
                self._leave_within(host)

    def _leave_within(self, host: LostHost) -> None:
        """Spark counts on the slots no more once it is asked. What it waits for then, a master that
        may be lost as well, nothing here needs to wait for."""
        asking = threading.Thread(
            target=self._leave, args=(host,), name="mainstay-leave", daemon=True
        )
        asking.start()
        asking.join(LEAVE_S)

    def _leave(self, lost: LostHost) -> None:
        workers = _named("worker", lost.workers)
        why = f"host {lost.host}, with {workers}, was not heard of for {lost.silent_s:.0f} s"
        try:
            left = self._cluster.leave(lost.host)
        except Exception as error:
            what = f"Spark could not be told to leave it, and may start workers there: {error}"
        else:
            what = "Spark has no executor there any more, so none is started there"
            if left:
                which = _named("executor", left)
                what = f"taken out of Spark before the next attempt: {which}"
        _log.warning("job %r: %s; %s", self._name, why, what)

    # ------------------------------------------------------------ room

    @property
    def counts_room(self) -> bool:
        return not self._cluster.is_local

    def room(self) -> int | None:
        # Spark counts the slots of a lost host until it is told of it.
        self._leave_lost()
        slots = self._cluster.slots()
        if slots is None:
            return None
        own = 0 if self._reservation is None else self._reservation.slots
        return slots.total - (promised(self._cluster.application) - own) - self._queries

    # ------------------------------------------------------------ the end

    def _group(self, attempt: int) -> str:
        return f"mainstay-{self._id}-{attempt}"

    def stop(self, attempt: int) -> None:
        """Cancel the Spark job of an attempt, also one that has not been submitted yet."""
        if attempt in self._stops:
            self._stops[attempt].set()
        try:
            self._cluster.cancel(self._group(attempt))
        except Exception:
            # A session that was stopped has taken its jobs with it.
            if not self._cluster.is_stopped():
                raise

    def gone(self) -> Exception | None:
        if not self._cluster.is_stopped():
            return None
        return SessionStoppedError(
            f"the Spark session was stopped, or its JVM died, under job {self._name!r}, and its "
            "workers with it. If the program stops the session: end the job (job.stop() or "
            "job.cancel()) before spark.stop(). If the JVM, or the Connect server, died: see what "
            "ended it, such as a kill for want of memory (spark.driver.memory). To go on, "
            "start another session and the job again with restore='latest'."
        )

    def close(self) -> None:
        try:
            for attempt, thread in self._threads.items():
                thread.join(CLOSE_S)
                if thread.is_alive():
                    self.stop(attempt)
                    thread.join(CLOSE_S)
        finally:
            if self._reservation is not None:
                self._reservation.release()


def _named(noun: str, each: Iterable[object]) -> str:
    """Such as "workers 1, 3"."""
    shown = [str(one) for one in each]
    return f"{noun}{'s' * (len(shown) != 1)} {', '.join(shown)}"


def _main(bootstrap: bytes, host: str | None) -> Main:
    """What every barrier task runs."""

    def main(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            continue
        context = BarrierTaskContext.get()
        # Spark puts a partition anywhere: which worker the task becomes is the coordinator's word.
        process = context.partitionId()
        own = host or context.getTaskInfos()[process].address.rsplit(":", 1)[0].strip("[]")
        RemoteWorker(cloudpickle.loads(bootstrap), process, own).run()
        return iter(())

    return main

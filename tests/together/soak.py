"""The whole product on one cluster, under failures, and one judgement at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

import mainstay as ms
from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer, asked
from tests.services.standalone import StandaloneCluster
from tests.together.answers import AnswerBook, Legal
from tests.together.asking import Clients
from tests.together.chaos import Chaos
from tests.together.feeding import Feeder
from tests.together.generator import PARTITIONS
from tests.together.jobs import TogetherJob
from tests.together.judging import judge
from tests.together.places import Places
from tests.together.plan import APART_S, Planned, plan
from tests.together.processes import workers_of
from tests.together.report import Report
from tests.together.sampling import Sampler
from tests.together.storage import SmallDisk

LOG = logging.getLogger("together")
FIRST_EPOCH_S = 600.0
END_S = 900.0
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


class Soak:
    """What runs, from the services to the clients; ``closing`` ends it in the other order."""

    def __init__(
        self, folder: Path, seed: int, closing: ExitStack, *, on_spark: bool = True
    ) -> None:
        self.seed = seed
        self.closing = closing
        self.disk = SmallDisk(folder / "disk")
        closing.callback(self.disk.close)
        self.broker = self._broker(folder / "kafka")
        self.postgres = PostgresServer()
        closing.callback(self.postgres.close)
        self.postgres.start()
        self.dsn = self.postgres.schema()
        ms.Postgres(self.dsn, schema="states")  # so that stored state can be read in this process
        self.feeder = Feeder(self.broker.servers, folder / "files", seed)
        cluster = folder / "cluster"
        cluster.mkdir()
        master = self._master(cluster) if on_spark else None
        places = Places(self.broker.servers, self.dsn, "", str(folder / "files"), False)
        self.jobs = [
            TogetherJob(name, folder, self.disk.place, master, places, drivers)
            for name, drivers in (("orders", 2), ("accounts", 1))
        ]
        for job in self.jobs:
            closing.callback(job.close)
        self.books = {job.name: AnswerBook(self._legal(job.name)) for job in self.jobs}
        self.clients = Clients(self.jobs, self.books, seed)
        savepoints = folder / "savepoints"
        self.chaos = Chaos(
            self.jobs, cluster, self.disk, self.broker, self.postgres, self.clients, savepoints
        )
        self.sampler = self._sampler(cluster)

    def _master(self, folder: Path) -> str:
        cluster = StandaloneCluster(folder, cores=8, memory="4g")
        return self.closing.enter_context(cluster).master

    def _broker(self, folder: Path) -> KafkaBroker:
        broker = KafkaBroker(folder)
        self.closing.callback(broker.stop)
        broker.start()
        broker.create("events", PARTITIONS)
        for topic in ("totals", "buckets", "rounds"):
            broker.create(topic)
        return broker

    def _legal(self, name: str) -> Legal:
        """Rows of files come in any order: of those only how many there are is known."""
        prefixes = self.feeder.prefixes
        if name == "accounts":
            return Legal(lambda _: self.feeder.moves, lambda *_: None, lambda *_: 0)
        return Legal(prefixes.produced, prefixes.last_of, prefixes.count_at)

    def _sampler(self, cluster: Path) -> Sampler:
        kinds: dict[str, Callable[[], list[psutil.Process]]] = {}
        figures: dict[tuple[str, str], Callable[[], float | None]] = {}
        for job in self.jobs:
            kinds[f"{job.name}, drivers"] = lambda job=job: [
                psutil.Process(each.process.pid)
                for each in list(job.drivers)
                if each.url and each.is_alive
            ]
            kinds[f"{job.name}, workers"] = lambda job=job: workers_of(cluster, job)
            figures[f"{job.name}, snapshots", "files"] = lambda job=job: _files(
                job.current.snapshots
            )
        figures["PostgreSQL, sessions", "connections"] = self._sessions
        return Sampler(kinds, figures)

    def _sessions(self) -> float | None:
        import psycopg

        try:
            return float(asked(self.dsn, SESSIONS)[0][0])
        except psycopg.Error:
            return None

    # ------------------------------------------------------------ running

    def run(self, minutes: float, apart_s: tuple[float, float] = APART_S) -> Report:
        try:
            self._run(minutes, plan(self.seed, minutes * 60, apart_s))
        except TimeoutError as error:
            report = Report(self.seed, minutes, self.chaos.done, self.chaos.skipped, None)
            report.differences = [str(error), *self.chaos.findings, *self.clients.findings]
            return report
        return judge(self, minutes)

    def _run(self, minutes: float, events: list[Planned]) -> None:
        with self._minding():
            self.feeder.start()
            for job in self.jobs:
                job.start()
            self._await(lambda: all(job.log.epochs for job in self.jobs), FIRST_EPOCH_S)
            self.clients.start()
            self.clients.start()
            self.sampler.start()
            began = time.monotonic()
            self.chaos.run(events)
            threading.Event().wait(max(0.0, began + minutes * 60 - time.monotonic()))
            self._come_to_an_end()

    def _come_to_an_end(self) -> None:
        """Everything works again; the rest of the input is read, and the jobs finish."""
        LOG.info("the end: what was begun is waited for")
        self.chaos.join()
        self.sampler.end()
        self.feeder.end()
        for job in self.jobs:
            job.finish()
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


def _files(folder: Path) -> float | None:
    try:
        return float(sum(1 for path in folder.rglob("*") if path.is_file()))
    except OSError:
        return None  # a folder was deleted under the look

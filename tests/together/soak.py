"""The whole product on one cluster, under failures, and one judgement at the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil

import mainstay as ms
from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer, asked
from tests.services.standalone import StandaloneCluster
from tests.together import outputs
from tests.together.answers import AnswerBook, Legal
from tests.together.around import Around
from tests.together.asking import Clients
from tests.together.chaos import Chaos
from tests.together.checker import check_courses
from tests.together.feeding import Feeder
from tests.together.generator import PARTITIONS
from tests.together.jobs import TogetherJob
from tests.together.judging import judge
from tests.together.model import Rows
from tests.together.places import Places
from tests.together.processes import workers_of
from tests.together.report import Report
from tests.together.running import Running
from tests.together.sampling import Sampler
from tests.together.storage import SmallDisk

DRIVERS = 2
"""Of each job: one leads, and one stands by."""
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


class Soak(Running):
    """What runs, from the services to the clients; ``closing`` ends it in the other order."""

    def __init__(
        self, folder: Path, seed: int, closing: ExitStack, *, on_spark: bool = True
    ) -> None:
        self.seed = seed
        self.closing = closing
        self.disk, self.local = SmallDisk(folder / "disk"), SmallDisk(folder / "local")
        closing.callback(self.disk.close)
        closing.callback(self.local.close)
        self.spared = self.disk.reason
        self.broker = self._broker(folder / "kafka")
        self.postgres = PostgresServer()
        closing.callback(self.postgres.close)
        self.postgres.start()
        self.dsn = self.postgres.schema()
        ms.Postgres(self.dsn, schema="states")  # so that stored state can be read in this process
        self.feeder = Feeder(self.broker.servers, folder / "files", seed)
        self.prefixes = self.feeder.prefixes
        cluster = folder / "cluster"
        cluster.mkdir()
        master = self._master(cluster) if on_spark else None
        places = Places(self.broker.servers, self.dsn, "", str(folder / "files"), False)
        self.jobs = [
            TogetherJob(name, folder, self.disk.place, self.local.place, master, places, DRIVERS)
            for name in ("orders", "accounts")
        ]
        for job in self.jobs:
            closing.callback(job.close)
        self.books = {job.name: AnswerBook(self._legal(job.name)) for job in self.jobs}
        self.clients = Clients(self.jobs, self.books, seed)
        savepoints = folder / "savepoints"
        self.chaos = Chaos(
            self.jobs,
            cluster,
            savepoints,
            self.clients,
            Around(self.disk, self.local, self.broker, self.postgres).acts(),
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
        prefixes = self.prefixes
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

    # ------------------------------------------------------------ what is below the jobs

    def amounts(self) -> tuple[int, int]:
        return self.feeder.events, self.feeder.moves

    def output(self, job: TogetherJob, name: str) -> Rows:
        if name in outputs.TOPICS:
            return outputs.of_topic(self.broker, name)
        if name in outputs.TABLES:
            return outputs.of_table(self.dsn, name)
        return outputs.of_folders(name, [each.parquet for each in job.incarnations])

    def begin(self) -> None:
        self.feeder.start()

    def watch(self) -> None:
        self.sampler.start()

    def end(self) -> None:
        self.sampler.end()
        self.feeder.end()

    def judged(self, minutes: float) -> Report:
        report = judge(self, minutes)
        report.courses = self.sampler.samples.courses()
        report.differences += check_courses(report.courses)
        found = outputs.input_numbers(self.broker, PARTITIONS)
        wrong = {n: times for n, times in found.items() if times != 1}
        if wrong or len(found) != self.feeder.events:
            told = f"the input itself: {len(found)} numbers, {wrong} not once"
            report.differences.append(told)
        return report


def _files(folder: Path) -> float | None:
    try:
        return float(sum(1 for path in folder.rglob("*") if path.is_file()))
    except OSError:
        return None  # a folder was deleted under the look

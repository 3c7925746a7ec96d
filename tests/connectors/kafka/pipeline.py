"""Kafka → keyed state → Kafka: the job of the failure tests, and what it must come to.

Every id is counted under its key and written out with its number there. What a read-committed
consumer must find is known without running it: every id once, and for every key the numbers
1, 2, 3 … in order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.connectors import Sink
from mainstay.connectors.kafka import Json, KafkaSink, KafkaSource
from mainstay.drive.embedded import EmbeddedJob
from mainstay.drive.handle import JobHandle
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_job import RemoteJob
from mainstay.drive.scaling import Scaling
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.snapshot.object_storage import open_storage
from tests.services.kafka import KafkaBroker

KEYS = 13
PARTITIONS = 2
PATIENCE_S = 120.0


class Numbered(ms.KeyedProcess):
    """Passes every id on with its number under its key."""

    count = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        number = (self.count.get() or 0) + 1
        self.count.update(number)
        return ctx.key, row.id, number


class Pipeline:
    """One job over two topics of its own."""

    def __init__(self, broker: KafkaBroker, folder: Path, topic: Callable[..., str]) -> None:
        self.broker = broker
        self.folder = folder
        self.incoming = topic(PARTITIONS)
        self.outgoing = topic(PARTITIONS)
        self.sent = 0

    def send(self, count: int) -> None:
        """Further ids, over both partitions."""
        for partition in range(PARTITIONS):
            ids = range(self.sent + partition, self.sent + count, PARTITIONS)
            values = [json.dumps({"id": id, "k": id % KEYS}).encode() for id in ids]
            self.broker.send(self.incoming, values, partition=partition)
        self.sent += count

    def sink(self, **options: Any) -> KafkaSink:
        return KafkaSink(self.broker.servers, self.outgoing, key="k", **options)

    def start(
        self,
        sink: Sink | None = None,
        *,
        drive: str = "embedded",
        parallelism: int = 2,
        every_s: float = 0.3,
        restore: str = "new",
        until: Any = "latest",
        max_failures: int = 20,
    ) -> JobHandle:
        environment = ms.Environment(parallelism=parallelism)
        source = KafkaSource(
            self.broker.servers,
            self.incoming,
            value=Json("id long not null, k long not null"),
            until=until,
        )
        ids = environment.source(source, uid="ids")
        numbered = ids.key_by("k").process(Numbered(), "k long, id long, n long", uid="numbered")
        numbered.sink(sink or self.sink(), uid="out")
        spec, graph = environment.plan(), environment.graph()
        scaling = Scaling(parallelism, lambda other: plan_of(graph.at(other)))
        options = JobOptions(
            "pipeline",
            "pipeline",
            SnapshotOptions(every_s=every_s),
            RestartOptions(max_failures=max_failures, backoff_s=0.05, max_backoff_s=0.2),
            RestoreOptions(restore),
        )
        directory = str(self.folder / "snapshots")
        if drive == "processes":
            launcher = ProcessLauncher()
            return RemoteJob("pipeline", spec, options, directory, launcher, None, scaling)
        return EmbeddedJob("pipeline", spec, options, open_storage(directory), scaling)

    def rows(self) -> list[dict[str, int]]:
        """What an independent consumer finds committed."""
        found = self.broker.committed(self.outgoing, PARTITIONS)
        return [json.loads(message.value()) for message in found]

    def check(self) -> None:
        rows = self.rows()
        assert Counter(row["id"] for row in rows) == Counter(range(self.sent))
        numbers: dict[int, list[int]] = {}
        for row in rows:
            numbers.setdefault(row["k"], []).append(row["n"])
        for key, found in numbers.items():
            assert found == list(range(1, len(found) + 1)), f"the numbers of key {key} are {found}"

"""Queries with Spark's own connector for Kafka, and jobs that go on at their offsets.

The topic is read by the query, in two starts, then by the job, in two starts: records come before,
between and after, and every one of them counts once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import from_json

import mainstay as ms
from mainstay.connectors.kafka import Json, KafkaSource
from tests.services import spark_kafka
from tests.services.maven import ServiceMissingError
from tests.spark.checkpoints import (
    SCHEMA,
    GoesOn,
    by_kinds,
    last_by_key,
    run_query,
    write_numbers,
)

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.soak]
pytest.importorskip("google.protobuf", reason="Spark's transformWithState needs protobuf")

IN_A_BATCH = 12


class Topic:
    """A topic of numbers, which are in its partitions in turn."""

    def __init__(self, spark: Any, broker: Any, name: str, folder: Path) -> None:
        self.spark, self.broker, self.name, self.folder = spark, broker, name, folder
        self.partitions = 2

    def send(self, numbers: Iterable[int]) -> None:
        given = list(numbers)
        write_numbers(self.folder / "all", f"{given[0]}.json", given)
        lines = (self.folder / "all" / f"{given[0]}.json").read_text().splitlines()
        for partition in range(self.partitions):
            mine = [line.encode() for line in lines if self._place(line) == partition]
            self.broker.send(self.name, mine, partition=partition)

    def _place(self, line: str) -> int:
        return int(json.loads(line)["n"]) % self.partitions

    def grow(self) -> None:
        """One partition more."""
        from confluent_kafka.admin import NewPartitions

        self.partitions += 1
        asked = [NewPartitions(self.name, self.partitions)]
        self.broker.admin().create_partitions(asked)[self.name].result(30.0)

    def query(self) -> None:
        """Have a query read what is there, some records in each micro-batch."""
        read = self.spark.readStream.format("kafka").option("subscribe", self.name)
        read = read.option("kafka.bootstrap.servers", self.broker.servers)
        read = read.option("startingOffsets", "earliest")
        records = read.option("maxOffsetsPerTrigger", IN_A_BATCH).load()
        parsed = from_json(records.value.cast("string"), SCHEMA).alias("row")
        run_query(self.spark, self.folder, by_kinds, rows=records.select(parsed).select("row.*"))

    def job(self) -> GoesOn:
        servers = self.broker.servers
        source = KafkaSource(servers, self.name, value=Json(SCHEMA), until="latest")
        return GoesOn(self.folder, by_kinds, source=source)

    def imported(self) -> Any:
        program, _ = self.job().build("planned")
        return ms.spark.import_checkpoint(
            self.folder / "checkpoint",
            self.folder / "saved",
            program=program,
            spark=self.spark,
            partitions=1,
        )

    def whole(self) -> Any:
        """What one run over all records comes to."""
        files = ms.connectors.Files(self.folder / "all", schema=SCHEMA)
        name = f"whole-{len(list((self.folder / 'all').iterdir()))}"
        return last_by_key(GoesOn(self.folder, by_kinds, source=files).run(name), 2)


@pytest.fixture
def numbers(stateful: Any, broker: Any, topic: Callable[..., str], tmp_path: Path) -> Topic:
    try:
        spark_kafka.add_to(stateful)
    except ServiceMissingError as missing:
        pytest.skip(f"no connector of Spark's for Kafka: {missing}")
    return Topic(stateful, broker, topic(2), tmp_path)


def test_every_record_before_between_and_after_counts_once(numbers: Topic) -> None:
    numbers.send(range(20))
    numbers.query()
    numbers.send(range(20, 34))
    numbers.query()
    numbers.send(range(34, 50))
    report = numbers.imported()
    name = numbers.name
    assert report.batch == 3
    assert report.sources == {"clicks": f"goes on with {name}-0 at 17, {name}-1 at 17"}
    assert report.notes == ()
    job = numbers.job()
    first = job.run("goes-on", restore=report.savepoint)
    assert last_by_key(first, 2) == numbers.whole()
    numbers.grow()
    numbers.send(range(50, 73))
    second = job.run("goes-on", spark=numbers.spark, parallelism=2, restore="latest")
    assert last_by_key(second, 2) == numbers.whole()


def test_records_of_a_batch_that_was_not_committed_count_once(numbers: Topic) -> None:
    """As of a query that was killed when its state was written, and its batch not yet noted."""
    numbers.send(range(20))
    numbers.query()
    for file in (numbers.folder / "checkpoint/commits").glob("*1*"):
        file.unlink()
    numbers.send(range(20, 30))
    report = numbers.imported()
    name = numbers.name
    assert report.batch == 0
    assert report.sources == {"clicks": f"goes on with {name}-0 at 6, {name}-1 at 6"}
    assert [note.split(":")[0] for note in report.notes] == ["batch 1 was begun and not committed"]
    found = numbers.job().run("goes-on", restore=report.savepoint)
    assert last_by_key(found, 2) == numbers.whole()

"""The sinks that the contract is run against, each with a reader that shows what is committed.

A further sink is a further function with ``@example``. It gets the test's request, for fixtures,
and gives an ``Example``, whose sink can be made as often as a test likes: as in another program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors import (
    Console,
    Delivery,
    DeltaSink,
    FileSink,
    IdempotentSink,
    Json,
    Memory,
    Order,
    ParquetSink,
    Sink,
    SinkContext,
    SinkRecovery,
    TransactionId,
    TwoPhaseSink,
    Upserter,
    Webhook,
    WriteAheadSink,
    read_committed,
)
from mainstay.connectors.bases.transactions import owner_of
from mainstay.connectors.kafka import KafkaSink
from mainstay.connectors.postgres import PostgresSink, PostgresUpsertSink
from mainstay.schema import rows_to_batch, to_schema
from tests.services.postgres import asked
from tests.services.web import Service

SCHEMA = to_schema("id long, name string")
_numbers = count(1)


@dataclass(frozen=True)
class Example:
    """A sink, and the ids of the rows that a reader of its target sees."""

    make: Callable[[], Sink]
    seen: Callable[[], list[int]]
    hides: bool = True
    """Whether rows are hidden until they are committed."""
    remembers: bool = True
    """Whether another program knows what was committed before."""
    is_ordered: bool = True
    """Whether readers see the epochs in their order."""
    lineage: str = field(default_factory=lambda: f"lineage-{next(_numbers)}")


Build = Callable[[pytest.FixtureRequest], Example]
EXAMPLES: dict[str, Build] = {}
GROUPS: dict[str, str] = {}
"""The group of tests that share a service, for the sinks that need one."""


def example(build: Build) -> Build:
    EXAMPLES[build.__name__] = build
    return build


def served(group: str) -> Callable[[Build], Build]:
    def marked(build: Build) -> Build:
        GROUPS[build.__name__] = group
        return example(build)

    return marked


def batch_of(*ids: int) -> pa.RecordBatch:
    return rows_to_batch([(id, f"n{id}") for id in ids], SCHEMA, "an example")


def folder_of(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue("tmp_path")
    return folder / "out"


# ---------------------------------------------------------------- for people and tests


@example
def memory(_: pytest.FixtureRequest) -> Example:
    sink = Memory()
    return Example(lambda: sink, lambda: [row[0] for row in sink.rows()])


@example
def console(request: pytest.FixtureRequest) -> Example:
    capsys: pytest.CaptureFixture[str] = request.getfixturevalue("capsys")
    printed: list[int] = []

    def seen() -> list[int]:
        lines = re.findall(r"^  (\d+) +│", capsys.readouterr().out, re.MULTILINE)
        printed.extend(map(int, lines))
        return printed

    return Example(lambda: Console(limit=1000), seen, remembers=False)


# ---------------------------------------------------------------- files


def files(folder: Path, make: Callable[[], Sink], *, is_ordered: bool = True) -> Example:
    def seen() -> list[int]:
        if not any(folder.rglob("*")):
            return []
        return [n.as_py() for n in read_committed(folder, SCHEMA).column("id")]

    return Example(make, seen, is_ordered=is_ordered)


@example
def parquet_directory_of_spark(request: pytest.FixtureRequest) -> Example:
    folder = folder_of(request)
    return files(folder, lambda: ParquetSink(folder, rows_per_file=2))


@example
def partitioned_parquet_directory_of_spark(request: pytest.FixtureRequest) -> Example:
    folder = folder_of(request)
    return files(folder, lambda: ParquetSink(folder, partition_by="name"), is_ordered=False)


@example
def parquet_files(request: pytest.FixtureRequest) -> Example:
    folder = folder_of(request)
    return files(folder, lambda: FileSink(folder, roll_rows=2))


@example
def csv_files(request: pytest.FixtureRequest) -> Example:
    folder = folder_of(request)
    return files(folder, lambda: FileSink(folder, format="csv"))


@example
def json_files(request: pytest.FixtureRequest) -> Example:
    folder = folder_of(request)
    return files(folder, lambda: FileSink(folder, format="json", compact="1MiB"), is_ordered=False)


@example
def delta_table(request: pytest.FixtureRequest) -> Example:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    folder = folder_of(request)

    def seen() -> list[int]:
        if not deltalake.DeltaTable.is_deltatable(str(folder)):
            return []
        table = deltalake.DeltaTable(str(folder)).to_pyarrow_table()
        return [n.as_py() for n in table.column("id")]

    return Example(lambda: DeltaSink(folder), seen, is_ordered=False)


# ---------------------------------------------------------------- the bases


@dataclass
class Target:
    """What a sink writes to: it outlives every program."""

    committed: list[int] = field(default_factory=list)
    open: dict[str, list[int]] = field(default_factory=dict)
    prepared: dict[str, list[int]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    rows: dict[int, Order] = field(default_factory=dict)


_targets: dict[int, Target] = {}


def new_target() -> int:
    number = next(_numbers)
    _targets[number] = Target()
    return number


class Bank(TwoPhaseSink[str]):
    """Transactions that are prepared and then committed, by name."""

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def target(self) -> Target:
        return _targets[self.number]

    def begin(self, id: TransactionId) -> str:
        self.target.open[str(id)] = []
        return str(id)

    def write(self, transaction: str, batch: pa.RecordBatch) -> None:
        self.target.open[transaction] += batch.column("id").to_pylist()

    def pre_commit(self, transaction: str) -> bytes:
        self.target.prepared[transaction] = self.target.open.pop(transaction)
        return json.dumps({"version": 1, "name": transaction}).encode()

    def abort(self, transaction: str) -> None:
        self.target.open.pop(transaction, None)
        self.target.prepared.pop(transaction, None)

    def commit(self, handles: Any) -> None:
        for name in (json.loads(handle)["name"] for handle in handles):
            if name not in self.target.done:
                self.target.committed += self.target.prepared.pop(name)
                self.target.done.add(name)

    def recover(self, recovery: SinkRecovery) -> None:
        owner = owner_of(recovery.lineage, recovery.uid)
        kept = {json.loads(handle)["name"] for handle in recovery.handles}
        for name in [*self.target.open, *self.target.prepared]:
            id = TransactionId.parse(name)
            assert id is not None
            if name not in kept and id.owner == owner and id.attempt < recovery.attempt:
                self.abort(name)


@example
def two_phase(_: pytest.FixtureRequest) -> Example:
    number = new_target()
    return Example(lambda: Bank(number), lambda: _targets[number].committed)


class Mailbox(WriteAheadSink):
    """Takes a delivery once, by its key."""

    def __init__(self, number: int) -> None:
        self.number = number

    def deliver(self, delivery: Delivery) -> None:
        target = _targets[self.number]
        if delivery.key not in target.done:
            target.committed += delivery.rows.column("id").to_pylist()
            target.done.add(delivery.key)


@example
def write_ahead(_: pytest.FixtureRequest) -> Example:
    number = new_target()
    return Example(lambda: Mailbox(number), lambda: _targets[number].committed)


class Profiles(IdempotentSink):
    """One row for each id, the newest."""

    def __init__(self, number: int) -> None:
        self.number = number

    def connect(self, context: SinkContext) -> Upserter:
        return ProfileWriter(self.number)


class ProfileWriter(Upserter):
    def __init__(self, number: int) -> None:
        self.rows = _targets[number].rows

    def upsert(self, batch: pa.RecordBatch, order: Order) -> None:
        for place, id in enumerate(batch.column("id").to_pylist()):
            new = order._replace(number=order.number + place)
            self.rows[id] = max(new, self.rows.get(id, new))


@example
def idempotent(_: pytest.FixtureRequest) -> Example:
    number = new_target()
    return Example(
        lambda: Profiles(number),
        lambda: sorted(_targets[number].rows),
        hides=False,
        is_ordered=False,
    )


# ---------------------------------------------------------------- a writer of PySpark


@example
def pyspark_writer(request: pytest.FixtureRequest) -> Example:
    feeds = pytest.importorskip("tests.spark.feeds", reason="pyspark is not installed")
    from mainstay.spark.sources.writer_sink import pyspark_sink

    folder: Path = request.getfixturevalue("tmp_path")
    return Example(
        lambda: pyspark_sink(feeds.Book({"folder": str(folder)}), SCHEMA),
        lambda: sorted(feeds.published(folder).elements()),
        is_ordered=False,
    )


# ---------------------------------------------------------------- services


@example
def webhook(request: pytest.FixtureRequest) -> Example:
    service = Service()
    request.addfinalizer(service.close)
    return Example(
        lambda: Webhook(service.url, batch_rows=2), lambda: [row["id"] for row in service.rows()]
    )


@served("kafka")
def kafka_topic(request: pytest.FixtureRequest) -> Example:
    broker, topic = request.getfixturevalue("broker"), request.getfixturevalue("topic")()
    return Example(
        lambda: KafkaSink(broker.servers, topic, value=Json(), key="id"),
        lambda: [json.loads(each.value())["id"] for each in broker.committed(topic)],
        lineage=topic,
    )


@served("kafka")
def kafka_topic_without_transactions(request: pytest.FixtureRequest) -> Example:
    broker, topic = request.getfixturevalue("broker"), request.getfixturevalue("topic")()
    return Example(
        lambda: KafkaSink(broker.servers, topic, value=Json(), transactional=False),
        lambda: [json.loads(each.value())["id"] for each in broker.committed(topic)],
        hides=False,
    )


@served("postgres")
def postgres_table(request: pytest.FixtureRequest) -> Example:
    dsn = request.getfixturevalue("dsn")
    asked(dsn, "CREATE TABLE t (id bigint, name text)")
    return Example(
        lambda: PostgresSink(dsn, "t"),
        lambda: [id for (id,) in asked(dsn, "SELECT id FROM t")],
        lineage=dsn[-12:],
        is_ordered=False,
    )


@served("postgres")
def postgres_table_of_newest_rows(request: pytest.FixtureRequest) -> Example:
    dsn = request.getfixturevalue("dsn")

    def seen() -> list[int]:
        if asked(dsn, "SELECT to_regclass('t')") == [(None,)]:
            return []
        return [id for (id,) in asked(dsn, "SELECT id FROM t")]

    return Example(
        lambda: PostgresUpsertSink(dsn, "t", key="id", create=True),
        seen,
        hides=False,
        is_ordered=False,
        lineage=dsn[-12:],
    )

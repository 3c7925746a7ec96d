"""Rows a second into and out of Kafka, beside the bare client in the same run.

``python -m benchmarks.connectors.kafka`` starts a broker of its own, as the tests do, and writes
``benchmarks/results/connectors-kafka.md``. The sink and the source run in a whole job in one
process. The bare loops do the same with confluent-kafka alone: the same JSON in one transaction,
and all records taken by ``consume`` without looking into them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from itertools import count as counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.connectors.files import BATCH, SCHEMA, Counting, Given, job, orders
from benchmarks.report import Table, add_beside, write_report
from mainstay.connectors.kafka import Json, KafkaSink, KafkaSource
from tests.services.kafka import KafkaBroker

ROWS = 300_000
REPEATS = 3
PARTITIONS = 2
RESULT = Path(__file__).parents[1] / "results" / "connectors-kafka.md"


def bare_write(broker: KafkaBroker, topic: str, batch: pa.RecordBatch) -> float:
    from confluent_kafka import Producer

    began = time.perf_counter()
    settings = {"bootstrap.servers": broker.servers, "transactional.id": topic, "linger.ms": 5}
    producer = Producer({**settings, "compression.type": "lz4"})
    producer.init_transactions(60.0)
    producer.begin_transaction()
    for at in range(0, batch.num_rows, BATCH):
        for value in Json().encode(batch.slice(at, BATCH)):
            _produce(producer, topic, value)
    producer.commit_transaction(60.0)
    return time.perf_counter() - began


def _produce(producer: Any, topic: str, value: bytes | None) -> None:
    while True:
        try:
            return producer.produce(topic, value)  # type: ignore[no-any-return]
        except BufferError:
            producer.poll(0.1)


def bare_read(broker: KafkaBroker, topic: str, rows: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    began = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "bare"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    taken = 0
    while taken < rows:
        messages = consumer.consume(BATCH, 1.0)
        taken += sum(
            message.error() is None and message.value() is not None for message in messages
        )
    took_s = time.perf_counter() - began
    consumer.close()
    return took_s


def measure(broker: KafkaBroker, rows: int = ROWS, repeats: int = REPEATS) -> Table:
    """Both directions, ours and the bare client's by turns."""
    batch, folder, numbers = orders(rows), Path(tempfile.mkdtemp()), counter()
    times: dict[str, list[float]] = {"sink": [], "write": [], "source": [], "read": []}
    try:
        for turn in range(repeats):
            ours, bare = (broker.create(f"bench{next(numbers)}", PARTITIONS) for _ in range(2))
            sink = KafkaSink(broker.servers, ours)
            times["sink"].append(job(Given(batch), sink, folder / f"w{turn}"))
            times["write"].append(bare_write(broker, bare, batch))
            source = KafkaSource(broker.servers, ours, value=Json(SCHEMA), until="latest")
            times["source"].append(job(source, Counting(), folder / f"r{turn}"))
            times["read"].append(bare_read(broker, ours, rows))
    finally:
        shutil.rmtree(folder)
    table = Table("Kafka", ["connector", "rows/s", "bare client rows/s", "ratio"])
    for name, mine, theirs in (("KafkaSink", "sink", "write"), ("KafkaSource", "source", "read")):
        add_beside(table, f"{name}, JSON", rows, times[mine], times[theirs])
    return table


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    broker = KafkaBroker(folder)
    broker.start()
    try:
        table = measure(broker)
    finally:
        broker.stop()
        shutil.rmtree(folder)
    note = (
        f"{ROWS:,} rows of four columns as JSON, {PARTITIONS} partitions, one subtask, an epoch a "
        f"second, one broker on the same machine, the median of {REPEATS}. A job's time includes "
        "starting it, its last epoch and the commit; the bare consumer does not parse."
    )
    write_report(RESULT, "Kafka", note, [table])


if __name__ == "__main__":
    main()

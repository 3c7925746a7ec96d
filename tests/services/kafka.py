"""A Kafka broker for tests: one KRaft node, whose jars come from Maven Central once.

::

    broker = KafkaBroker(folder)      # raises ServiceMissingError with the reason
    broker.start()
    broker.create("orders", partitions=2)
    broker.freeze()                   # as a machine that is out of reach
    broker.thaw()
    broker.stop()
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.services.maven import Jar, ServiceMissingError, fetched

__all__ = ["KafkaBroker", "ServiceMissingError", "jars"]

VERSION = "4.1.0"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
START_S = 180.0
QUICK_TO_START = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For tests, which are over before a better compiler would have paid."""

_PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=200
"""

_LOGGING = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN"><Appenders><Console name="out"><PatternLayout pattern="%d %p %m %c%n"/>
</Console></Appenders><Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


def jars() -> Path:
    """The directory with the broker's jars, filled the first time it is asked for."""
    return fetched(f"kafka-{VERSION}", [Jar("org.apache.kafka", "kafka_2.13", VERSION)])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class KafkaBroker:
    """One broker with its data in a folder. It can be stopped and started again."""

    def __init__(
        self, folder: Path, settings: str = "", java: Sequence[str] = QUICK_TO_START
    ) -> None:
        self.jars = jars()
        self._flags = [*java, "-Xshare:auto"]
        self.folder = folder
        self.port, controller = _free_ports(2)
        self.servers = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: Any = None
        folder.mkdir(parents=True, exist_ok=True)
        values = {"port": self.port, "controller": controller, "data": folder / "data"}
        self._properties = folder / "server.properties"
        self._properties.write_text(_PROPERTIES.format(**values) + settings)
        (folder / "log4j2.xml").write_text(_LOGGING)
        self._format(folder / "data")

    def _format(self, data: Path) -> None:
        """An empty storage, copied where one is kept: making it takes a JVM of its own."""
        kept = self.jars / "formatted"
        if not kept.is_dir():
            tool = ["format", "-t", CLUSTER, "-c", str(self._properties)]
            subprocess.run(
                self._java("kafka.tools.StorageTool", *tool),
                check=True,
                capture_output=True,
                timeout=START_S,
            )
            draft = self.jars / uuid.uuid4().hex
            shutil.copytree(data, draft)
            if not kept.exists():
                draft.rename(kept)
        else:
            shutil.copytree(kept, data)

    def _java(self, main: str, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        return ["java", *self._flags, logging, "-cp", f"{self.jars}/*", main, *arguments]

    def start(self, patience_s: float = START_S) -> None:
        """Start the broker and wait until it answers."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)), stdout=log, stderr=log
            )
        deadline = time.monotonic() + patience_s
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                end = (self.folder / "broker.log").read_text()[-2000:]
                raise RuntimeError(f"the Kafka broker did not start: {end}")

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                pass
            return bool(self.admin().list_topics(timeout=2.0).brokers)
        except OSError:
            time.sleep(0.05)  # nobody tells when a port is opened
            return False
        except KafkaException:
            return False

    def stop(self) -> None:
        """End the broker as a power cut would; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30.0)
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return self._admin

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        from confluent_kafka.admin import NewTopic

        settings = {name.replace("_", "."): value for name, value in config.items()}
        new = NewTopic(topic, partitions, 1, config=settings)
        self.admin().create_topics([new])[topic].result(30.0)
        return topic

    def send(self, topic: str, values: Sequence[bytes | None], **message: Any) -> None:
        """Write records with a client that has nothing to do with ours."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, **message)
        assert producer.flush(30.0) == 0

    def committed(self, topic: str, partitions: int = 1) -> list[Any]:
        """All messages that a read-committed consumer sees, partition after partition."""
        return self._all(topic, partitions, "read_committed")

    def uncommitted(self, topic: str, partitions: int = 1) -> list[Any]:
        """All messages there are, those of open and of aborted transactions among them."""
        return self._all(topic, partitions, "read_uncommitted")

    def end_of(self, topic: str, partition: int = 0) -> int:
        """The offset up to which a read-committed consumer can read."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        asked = {TopicPartition(topic, partition): OffsetSpec.latest()}
        level = IsolationLevel.READ_COMMITTED
        (found,) = self.admin().list_offsets(asked, isolation_level=level).values()
        return int(found.result(30.0).offset)

    def offsets_of_group(self, group: str) -> dict[tuple[str, int], int]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = [ConsumerGroupTopicPartitions(group)]
        (found,) = self.admin().list_consumer_group_offsets(asked).values()
        offsets = found.result(30.0).topic_partitions
        return {(each.topic, each.partition): each.offset for each in offsets}

    def _all(self, topic: str, partitions: int, isolation: str) -> list[Any]:
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "tests-independent",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: list[Any] = []
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(30.0)
            assert message is not None, "the broker gave nothing for 30 s"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

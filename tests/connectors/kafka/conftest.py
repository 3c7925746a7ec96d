"""One broker for all tests of this folder; where there is none they are skipped, and say why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.services.kafka import KafkaBroker, ServiceMissingError

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    try:
        broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    except ServiceMissingError as missing:
        pytest.skip(f"no Kafka broker: {missing}")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topic(broker: KafkaBroker) -> Callable[..., str]:
    """Makes a topic that no other test has."""

    def make(partitions: int = 1, **config: str) -> str:
        return broker.create(f"topic{next(_numbers)}", partitions, **config)

    return make

"""Which tests share a process: those that share a Spark session. No test is timed.

Services that several folders of tests use are fixtures here; where one cannot be had, the tests
that ask for it are skipped, and say why.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.services.kafka import KafkaBroker, ServiceMissingError
from tests.services.postgres import PostgresServer, ServiceMissing, shared

# How long an example takes says something of the machine, not of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

SPARK = Path(__file__).parent / "spark"
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SPARK in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


# ---------------------------------------------------------------- Kafka


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for all tests of a process."""
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


# ---------------------------------------------------------------- PostgreSQL


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One private server for all tests of a process; each leaves it without transactions."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        server = shared()
    except ServiceMissing as missing:
        pytest.skip(str(missing))
    yield server
    server.end_transactions()


@pytest.fixture
def dsn(server: PostgresServer) -> str:
    """A schema of its own for every test."""
    return server.schema()

"""The settings of a session in which Spark keeps state, and a server of Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

import tests.drive.ledger as ledger_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATEFUL = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="module")
def stateful(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with what Spark's own transformWithState asks for."""
    for name, value in STATEFUL.items():
        spark.conf.set(name, value)
    yield spark
    for name in STATEFUL:
        spark.conf.unset(name)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """That of a server of Spark Connect, which the tests of a file share."""
    from tests.spark.connect_server import connect_server

    with connect_server(tmp_path_factory.mktemp("connect")) as found:
        yield found


@pytest.fixture(scope="module")
def connected(address: str) -> Iterator[Any]:
    """Made by the class of Connect itself: a classic session may be in this process as well."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(address).create()
    yield session
    session.stop()


@pytest.fixture
def a_process_of_connect(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Functions of PySpark are those of Connect, and what the tests define travels by value."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    modules = (ledger_module, request.module)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)

"""The settings of a session in which Spark keeps state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

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

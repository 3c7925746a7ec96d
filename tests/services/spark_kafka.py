"""Spark's own connector for Kafka, which is no part of PySpark: its jars, by mvn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.services.maven import Jar, ServiceMissingError, fetched

_SUFFIX = "kafka-0-10_2.13"
KAFKA_CLIENTS, POOL = "3.9.2", "2.13.1"
OLDER = (("4.2.0", "4.2.0"), ("4.2.0", "4.1.0-preview1"))
"""Versions of the connector and of its token provider that serve where there are none of this
Spark's: a repository may lag behind."""


def jars(spark_version: str) -> Path:
    """The directory with the connector's jars, of the first version that can be had."""
    why = None
    for connector, provider in ((spark_version, spark_version), *OLDER):
        try:
            return fetched(f"spark-kafka-{connector}-{provider}", _jars(connector, provider))
        except ServiceMissingError as missing:
            why = missing
    assert why is not None
    raise why


def _jars(connector: str, provider: str) -> list[Jar]:
    """Each alone: all else is in PySpark, or is not needed."""
    return [
        Jar("org.apache.spark", f"spark-sql-{_SUFFIX}", connector, alone=True),
        Jar("org.apache.spark", f"spark-token-provider-{_SUFFIX}", provider, alone=True),
        Jar("org.apache.kafka", "kafka-clients", KAFKA_CLIENTS, alone=True),
        Jar("org.apache.commons", "commons-pool2", POOL, alone=True),
    ]


def add_to(spark: Any) -> None:
    """Have a session that runs know the connector."""
    for jar in sorted(jars(spark.version).glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")

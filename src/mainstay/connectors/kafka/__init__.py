"""Kafka: topics as sources and sinks, and the formats of their records."""

from mainstay.connectors.formats.records import ArrowIpc, Format, Json, Raw
from mainstay.connectors.kafka.sink import KafkaSink
from mainstay.connectors.kafka.source import KafkaSource

__all__ = ["ArrowIpc", "Format", "Json", "KafkaSink", "KafkaSource", "Raw"]

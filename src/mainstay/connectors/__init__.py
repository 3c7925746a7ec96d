"""Sources and sinks, and the contracts to write one.

A name is loaded when it is asked for. What needs a package of its own imports it when it is used,
and says which extra installs it.
"""

from typing import TYPE_CHECKING

from mainstay.lazy import loader

if TYPE_CHECKING:
    from mainstay.connectors.bases.idempotent import IdempotentSink, Order, Upserter
    from mainstay.connectors.bases.transactions import TransactionId
    from mainstay.connectors.bases.two_phase import TwoPhaseSink
    from mainstay.connectors.bases.write_ahead import Delivery, WriteAheadSink
    from mainstay.connectors.console import Console
    from mainstay.connectors.delta.sink import DeltaSink
    from mainstay.connectors.files.committed import read_committed
    from mainstay.connectors.files.parquet_sink import ParquetSink
    from mainstay.connectors.files.sink import FileSink
    from mainstay.connectors.files.source import Files
    from mainstay.connectors.formats.records import ArrowIpc, Format, Json, Raw
    from mainstay.connectors.generators import Generate, Sequence
    from mainstay.connectors.kafka.sink import KafkaSink
    from mainstay.connectors.kafka.source import KafkaSource
    from mainstay.connectors.memory import Memory, Rows
    from mainstay.connectors.postgres.sink import PostgresSink
    from mainstay.connectors.postgres.source import PostgresSource
    from mainstay.connectors.postgres.upsert import PostgresUpsertSink
    from mainstay.connectors.webhook import Webhook
    from mainstay.runtime.connector import (
        Polled,
        Sink,
        SinkContext,
        SinkRecovery,
        SinkWriter,
        Source,
        Split,
        SplitReader,
        UnavailableError,
    )

__all__ = [
    "ArrowIpc",
    "Console",
    "Delivery",
    "DeltaSink",
    "FileSink",
    "Files",
    "Format",
    "Generate",
    "IdempotentSink",
    "Json",
    "KafkaSink",
    "KafkaSource",
    "Memory",
    "Order",
    "ParquetSink",
    "Polled",
    "PostgresSink",
    "PostgresSource",
    "PostgresUpsertSink",
    "Raw",
    "Rows",
    "Sequence",
    "Sink",
    "SinkContext",
    "SinkRecovery",
    "SinkWriter",
    "Source",
    "Split",
    "SplitReader",
    "TransactionId",
    "TwoPhaseSink",
    "UnavailableError",
    "Upserter",
    "Webhook",
    "WriteAheadSink",
    "read_committed",
]

_HOMES = {
    "ArrowIpc": "mainstay.connectors.formats.records",
    "Console": "mainstay.connectors.console",
    "Delivery": "mainstay.connectors.bases.write_ahead",
    "DeltaSink": "mainstay.connectors.delta.sink",
    "FileSink": "mainstay.connectors.files.sink",
    "Files": "mainstay.connectors.files.source",
    "Format": "mainstay.connectors.formats.records",
    "Generate": "mainstay.connectors.generators",
    "IdempotentSink": "mainstay.connectors.bases.idempotent",
    "Json": "mainstay.connectors.formats.records",
    "KafkaSink": "mainstay.connectors.kafka.sink",
    "KafkaSource": "mainstay.connectors.kafka.source",
    "Memory": "mainstay.connectors.memory",
    "Order": "mainstay.connectors.bases.idempotent",
    "ParquetSink": "mainstay.connectors.files.parquet_sink",
    "Polled": "mainstay.runtime.connector",
    "PostgresSink": "mainstay.connectors.postgres.sink",
    "PostgresSource": "mainstay.connectors.postgres.source",
    "PostgresUpsertSink": "mainstay.connectors.postgres.upsert",
    "Raw": "mainstay.connectors.formats.records",
    "Rows": "mainstay.connectors.memory",
    "Sequence": "mainstay.connectors.generators",
    "Sink": "mainstay.runtime.connector",
    "SinkContext": "mainstay.runtime.connector",
    "SinkRecovery": "mainstay.runtime.connector",
    "SinkWriter": "mainstay.runtime.connector",
    "Source": "mainstay.runtime.connector",
    "Split": "mainstay.runtime.connector",
    "SplitReader": "mainstay.runtime.connector",
    "TransactionId": "mainstay.connectors.bases.transactions",
    "TwoPhaseSink": "mainstay.connectors.bases.two_phase",
    "UnavailableError": "mainstay.runtime.connector",
    "Upserter": "mainstay.connectors.bases.idempotent",
    "Webhook": "mainstay.connectors.webhook",
    "WriteAheadSink": "mainstay.connectors.bases.write_ahead",
    "read_committed": "mainstay.connectors.files.committed",
}

if not TYPE_CHECKING:  # or any name would pass a type checker
    __getattr__ = loader(__name__, _HOMES, modules=("kafka", "postgres"))


def __dir__() -> list[str]:
    return __all__

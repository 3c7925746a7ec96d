"""Sources and sinks, and the contracts to write one.

What needs a package of its own imports it when it is used, and says which extra installs it.
"""

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

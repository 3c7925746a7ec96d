"""Sources and sinks, and the contracts to write one.

What needs a package of its own imports it when it is used, and says which extra installs it.
"""

from mainstay.connectors.committed_files import read_committed
from mainstay.connectors.console import Console
from mainstay.connectors.delta import DeltaSink
from mainstay.connectors.file_sink import FileSink
from mainstay.connectors.files import Files
from mainstay.connectors.formats import ArrowIpc, Format, Json, Raw
from mainstay.connectors.generators import Generate, Sequence
from mainstay.connectors.idempotent import IdempotentSink, Order, Upserter
from mainstay.connectors.kafka_sink import KafkaSink
from mainstay.connectors.kafka_source import KafkaSource
from mainstay.connectors.memory import Memory, Rows
from mainstay.connectors.parquet_sink import ParquetSink
from mainstay.connectors.postgres_sink import PostgresSink
from mainstay.connectors.postgres_source import PostgresSource
from mainstay.connectors.postgres_upsert import PostgresUpsertSink
from mainstay.connectors.transactions import TransactionId
from mainstay.connectors.two_phase import TwoPhaseSink
from mainstay.connectors.webhook import Webhook
from mainstay.connectors.write_ahead import Delivery, WriteAheadSink
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

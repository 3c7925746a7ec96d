"""Sources and sinks, and the two contracts to write one."""

from mainstay.connectors.committed_files import read_committed
from mainstay.connectors.files import Files
from mainstay.connectors.generators import Generate, Sequence
from mainstay.connectors.idempotent import IdempotentSink, Order, Upserter
from mainstay.connectors.memory import Memory, Rows
from mainstay.connectors.parquet_sink import ParquetSink
from mainstay.connectors.transactions import TransactionId
from mainstay.connectors.two_phase import TwoPhaseSink
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
    "Delivery",
    "Files",
    "Generate",
    "IdempotentSink",
    "Memory",
    "Order",
    "ParquetSink",
    "Polled",
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
    "WriteAheadSink",
    "read_committed",
]

"""Sources and sinks, and the two contracts to write one."""

from mainstay.connectors.files import Files
from mainstay.connectors.generators import Generate, Sequence
from mainstay.connectors.memory import Memory, Rows
from mainstay.connectors.parquet_sink import ParquetSink, read_committed
from mainstay.runtime.connector import (
    Polled,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    SplitReader,
)

__all__ = [
    "Files",
    "Generate",
    "Memory",
    "ParquetSink",
    "Polled",
    "Rows",
    "Sequence",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Source",
    "Split",
    "SplitReader",
    "read_committed",
]

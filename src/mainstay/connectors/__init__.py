"""Sources and sinks, and the two contracts to write one."""

from mainstay.connectors.files import Files
from mainstay.connectors.memory import Memory, Rows
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
    "Memory",
    "Polled",
    "Rows",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Source",
    "Split",
    "SplitReader",
]

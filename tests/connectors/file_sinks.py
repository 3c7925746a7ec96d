"""File sinks without a job: writers, handles, and what a reader sees."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from mainstay.connectors import (
    ParquetSink,
    SinkContext,
    SinkWriter,
    read_committed,
)
from mainstay.connectors.files.sink import FileSink
from mainstay.schema import rows_to_batch, to_schema
from tests.sinks import prepare, write

SCHEMA = "n long, name string"

FORMATS = ("parquet", "csv", "json")


def batch(*numbers: int, schema: str = SCHEMA) -> pa.RecordBatch:
    return rows_to_batch([(n, f"name {n}") for n in numbers], to_schema(schema), "a test")


def opened(sink: FileSink | ParquetSink, attempt: int = 1, subtask: int = 0) -> SinkWriter:
    return sink.open(SinkContext("out", subtask, attempt, "job"))


def prepared(writer: SinkWriter, epoch: int, *numbers: int) -> list[bytes]:
    if numbers:
        write(writer, batch(*numbers))
    handle = prepare(writer, epoch)
    return [] if handle is None else [handle]


def shown(path: Path) -> list[str]:
    """What a program sees that passes over names with a dot or an underscore."""
    return sorted(str(file.relative_to(path)) for file in _visible(path))


def _visible(path: Path) -> list[Path]:
    files = [file for file in path.rglob("*") if file.is_file()]
    return [f for f in files if not any(p[0] in "._" for p in f.relative_to(path).parts)]


def seen(path: Path) -> list[int]:
    """The numbers in the CSV files that a plain program sees."""
    lines = [line for file in _visible(path) for line in file.read_text().splitlines()[1:]]
    return sorted(int(line.split(",")[0]) for line in lines)


def committed(path: Path) -> list[int]:
    return sorted(read_committed(path, SCHEMA).column("n").to_pylist())

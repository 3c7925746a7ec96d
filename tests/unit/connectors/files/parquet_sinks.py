"""Parquet sinks without a job: writers, handles, and what Spark would list."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa

from mainstay.connectors import ParquetSink, SinkContext, SinkWriter, read_committed
from mainstay.connectors.files.part_names import attempt_of
from mainstay.schema import rows_to_batch, to_schema
from tests.sinks import prepare, write

SCHEMA = to_schema("n long, at timestamp")


def batch(*numbers: int) -> pa.RecordBatch:
    at = datetime(2024, 5, 1, tzinfo=timezone.utc)
    return rows_to_batch([(n, at) for n in numbers], SCHEMA, "a test")


def opened(sink: ParquetSink, attempt: int = 1, subtask: int = 0, job: str = "job") -> SinkWriter:
    return sink.open(SinkContext("out", subtask, attempt, job))


def prepared(writer: SinkWriter, epoch: int, *numbers: int) -> list[bytes]:
    if numbers:
        write(writer, batch(*numbers))
    handle = prepare(writer, epoch)
    return [] if handle is None else [handle]


def committed(path: Path) -> list[int]:
    table = read_committed(path)
    return table.column("n").to_pylist() if table.num_columns else []


def log_names(path: Path) -> list[str]:
    return sorted(os.listdir(path / "_spark_metadata"))


def part_names(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if attempt_of(name) is not None)

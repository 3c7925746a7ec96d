"""An ingest log in a directory, and what is read of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstay.connectors.ingest.files import write_files
from mainstay.connectors.ingest.log import DataFile, IngestLog
from mainstay.connectors.ingest.source import IngestSource
from mainstay.runtime.connector import Split
from mainstay.schema import to_schema
from mainstay.snapshot.object_storage import open_storage

SCHEMA = to_schema("n long")

UID = "numbers"


def batch_of_numbers(numbers: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], schema=SCHEMA)


class Written:
    """A log in a directory or at a URL, and what is put into it."""

    def __init__(self, place: Path | str) -> None:
        self.location = str(place)
        self.storage = open_storage(self.location)
        self.log = IngestLog(self.storage, UID)
        self._attempts = 0

    def files(
        self, batch: int, numbers: Sequence[int], file_bytes: int = 1 << 20
    ) -> list[DataFile]:
        """What one attempt of one task writes."""
        self._attempts += 1
        name = f"0-{self._attempts}"
        batches = [batch_of_numbers(numbers[at : at + 10]) for at in range(0, len(numbers), 10)]
        return write_files(
            self.storage,
            batches,
            SCHEMA,
            lambda number: self.log.data_path(batch, f"{name}-{number}"),
            file_bytes,
        )

    def add(self, batch: int, numbers: Sequence[int]) -> None:
        self.log.commit(batch, "query", self.files(batch, numbers))

    def source(self, *, bounded: bool = False) -> IngestSource:
        return IngestSource(self.location, UID, SCHEMA, bounded=bounded)

    def data(self) -> list[str]:
        return self.storage.list(f"ingest/{UID}/data")


def read(source: IngestSource, split: Split, offset: Any = None, max_rows: int = 7) -> list[int]:
    reader, found = source.read(split, offset), []
    while True:
        polled = reader.poll(max_rows)
        found += polled.batch.column(0).to_pylist() if polled.batch is not None else []
        if polled.finished:
            return found


def read_all(source: IngestSource, seen: frozenset[str] = frozenset()) -> list[int]:
    return [n for split in source.plan(seen) for n in read(source, split)]

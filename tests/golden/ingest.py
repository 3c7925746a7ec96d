"""Ingest logs of both formats, each of three micro-batches and four files.

``python -m tests.golden.ingest DIRECTORY`` writes them, as of the version that runs it. Never write
over those that are there: what a format looked like is what they are for.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

from mainstay.connectors.ingest.files import write_files
from mainstay.connectors.ingest.log import DataFile, IngestLog
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.object_storage import open_storage

UID = "events"
SCHEMA = to_schema("n long, at timestamp")
BATCHES = [[[0, 1, 2], [3]], [[4, 5]], [[6]]]
"""By batch and file, numbers whose times are so many minutes after the beginning."""
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def time_of(n: int) -> datetime:
    return START + timedelta(minutes=n)


def write(directory: Path, *, is_timed: bool) -> None:
    """A log with event time has format 2, one without format 1."""
    storage = open_storage(str(directory))
    log = IngestLog(storage, UID)
    for batch, files in enumerate(BATCHES):
        written: list[DataFile] = []
        for numbers in files:
            path = log.data_path(batch, f"00000-{numbers[0]}")
            rows = rows_to_batch([(n, time_of(n)) for n in numbers], SCHEMA, "golden")
            column = 1 if is_timed else None
            written += write_files(
                storage, [rows], SCHEMA, lambda _, path=path: path, time_column=column
            )
        log.commit(batch, "golden", written)


if __name__ == "__main__":
    write(Path(sys.argv[1]) / "ingest-log-v1", is_timed=False)
    write(Path(sys.argv[1]) / "ingest-log-v2", is_timed=True)

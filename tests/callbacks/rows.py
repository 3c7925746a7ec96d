"""The rows that all jobs of the table read, and the source that gives them, a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pyarrow as pa

from mainstay.connectors import Polled, Source, Split, SplitReader
from mainstay.schema import to_schema

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = to_schema("k string, n long, at timestamp")
COUNT = 60
MIDDLE = 33
"""The row at which callbacks begin to do wrong."""
A_POLL = 6
PAUSE_S = 0.002


class Given(NamedTuple):
    k: str
    n: int
    at: datetime


ROWS = [Given(f"k{n % 3}", n, START + timedelta(seconds=n)) for n in range(COUNT)]


class Paced(Source):
    """Two splits, one of the even rows and one of the odd ones: so that a job has a middle."""

    schema = SCHEMA

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split(f"half-{number}", number) for number in range(2)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return PacedReader(ROWS[split.data :: 2], offset or 0)


class PacedReader(SplitReader):
    def __init__(self, rows: list[Given], position: int) -> None:
        self.rows, self.position = rows, position

    def poll(self, max_rows: int) -> Polled:
        taken = self.rows[self.position : self.position + A_POLL]
        self.position += len(taken)
        columns = [list(column) for column in zip(*taken, strict=True)]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )
        is_over = self.position == len(self.rows)
        return Polled(batch, self.position, finished=is_over, ready_in_s=PAUSE_S)

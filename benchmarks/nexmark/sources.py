"""The events as sources of Mainstay: made where they are read, or read from Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import mainstay as ms
from benchmarks.nexmark.generator import Columns, Generator
from benchmarks.nexmark.schemas import EVENTS, SIDE, projected
from benchmarks.nexmark.timeline import rows_per_chunk

SIDE_ROWS = 10_000


@dataclass(frozen=True)
class Rows:
    """Makes rows of a kind by their numbers, as ``ms.connectors.Generate`` asks for them."""

    generator: Generator
    kind: str
    columns: Columns = None

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        return self.generator.rows(self.kind, first, count, self.columns)


def generated(
    generator: Generator,
    kind: str,
    events: int,
    columns: Columns = None,
    *,
    splits: int = 2,
    run_rows: int | None = None,
) -> ms.connectors.Generate:
    """The rows of a kind among the first events of all kinds, made by the workers themselves.

    Splits take runs of ``run_rows`` in turn: by default a chunk, so that no two make the same one.
    A test of few events takes shorter runs, or all are in one split.
    """
    rows = generator.timeline.rows(kind, events)
    return ms.connectors.Generate(
        projected(EVENTS[kind], columns),
        Rows(generator, kind, columns),
        start=rows.start,
        end=rows.stop,
        splits=splits,
        batch_rows=run_rows or rows_per_chunk(kind),
    )


def stored(directory: Path, kind: str, columns: Columns = None) -> ms.connectors.Files:
    """The rows of a kind that ``write_parquet`` has written."""
    schema = projected(EVENTS[kind], columns)
    return ms.connectors.Files(directory / kind, schema=schema, format="parquet", batch_rows=32_768)


def side_table() -> pa.Table:
    """The side input of q13: a text for every number."""
    numbers = pa.array(range(SIDE_ROWS), pa.int64())
    return pa.table([numbers, numbers.cast(pa.string())], schema=SIDE)


def side() -> ms.connectors.Rows:
    return ms.connectors.Rows(SIDE, [(n, str(n)) for n in range(SIDE_ROWS)])

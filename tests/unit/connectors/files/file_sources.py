"""File sources without a job: files, and what is read of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors import Source
from mainstay.schema import batch_to_rows, row_class

SCHEMA = "name string, n long"


def write_parquet(path: Path, rows: list[tuple[Any, ...]]) -> None:
    names, numbers = zip(*rows, strict=True) if rows else ((), ())
    table = pa.table({"name": pa.array(names, pa.string()), "n": pa.array(numbers, pa.int64())})
    pq.write_table(table, path, row_group_size=7)


def write_csv(path: Path, rows: list[tuple[Any, ...]]) -> None:
    path.write_text("name,n\n" + "".join(f"{name},{n}\n" for name, n in rows))


def write_json(path: Path, rows: list[tuple[Any, ...]]) -> None:
    path.write_text("".join(json.dumps({"name": name, "n": n}) + "\n" for name, n in rows))


WRITERS: dict[str, Callable[[Path, list[tuple[Any, ...]]], None]] = {
    "parquet": write_parquet,
    "csv": write_csv,
    "json": write_json,
}


def read_all(source: Source, *, offset: int = 0, max_rows: int = 1000) -> list[tuple[Any, ...]]:
    """Every row of every split, each split from the offset on."""
    found: list[tuple[Any, ...]] = []
    for split in source.plan(frozenset()):
        reader = source.read(split, offset or None)
        while not (polled := reader.poll(max_rows)).finished:
            assert polled.batch is not None
            assert polled.batch.schema == source.schema
            assert 1 <= polled.batch.num_rows <= max_rows
            found += map(tuple, batch_to_rows(polled.batch, row_class(source.schema)))
        reader.close()
    return found

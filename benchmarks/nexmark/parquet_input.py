"""The events as Parquet, so that every system reads the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.schemas import EVENTS, SIDE
from benchmarks.nexmark.sources import side_table


def write_parquet(
    directory: Path, events: int, generator: Generator | None = None, *, files: int = 2
) -> None:
    """Write ``person/``, ``auction/``, ``bid/`` and ``side/``, each but the last in so many files.

    Chunks go to the files in turn, so readers of one file each stay close in event time. There
    should be as many files as readers: a reader of one file after another goes back in time.
    """
    made = generator or Generator()
    for kind, schema in EVENTS.items():
        with ExitStack() as stack:
            writers = [
                stack.enter_context(pq.ParquetWriter(path, schema, compression="snappy"))
                for path in _paths(directory / kind, files)
            ]
            rows = made.timeline.rows(kind, events)
            for number, batch in enumerate(made.slices(kind, rows)):
                writers[number % files].write_batch(batch)
    (path,) = _paths(directory / "side", 1)
    pq.write_table(side_table().cast(SIDE), path, compression="snappy")


def _paths(directory: Path, files: int) -> Sequence[Path]:
    directory.mkdir(parents=True)
    return [directory / f"part-{number}.parquet" for number in range(files)]

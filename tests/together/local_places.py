"""Where rows come from and go to where there is no server: they are made up, and go to folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pyarrow as pa

import mainstay as ms
from mainstay.schema import to_schema
from tests.together.generator import START_US, event, move
from tests.together.program import EVENT, MOVE, Ends

START = datetime.fromtimestamp(START_US // 1_000_000, timezone.utc)
OUTPUTS = {
    "orders": ("totals", "windows", "buckets", "pairs", "rounds"),
    "accounts": ("moves", "copies", "balances"),
}


@dataclass(frozen=True)
class LocalPlaces:
    """So many rows of both inputs, at a rate. ``parquet`` is the folder of the outputs."""

    seed: int
    events: int
    moves: int
    rows_per_second: float
    parquet: str = ""
    is_bounded: bool = True

    def ends(self, job: str) -> Ends:
        source = self._events() if job == "orders" else self._moves()
        folders = {
            name: ms.connectors.ParquetSink(f"{self.parquet}/{name}") for name in OUTPUTS[job]
        }
        return Ends(source, dict(folders))

    def _events(self) -> Any:
        """One split: the rows of a key come in order."""
        rows = partial(event_rows, self.seed)
        return ms.connectors.Generate(
            EVENT, rows, end=self.events, splits=1, rows_per_second=self.rows_per_second
        )

    def _moves(self) -> Any:
        rows = partial(move_rows, self.seed)
        return ms.connectors.Generate(
            MOVE, rows, end=self.moves, splits=3, rows_per_second=self.rows_per_second
        )


def event_rows(seed: int, first: int, count: int) -> pa.RecordBatch:
    return _batch(EVENT, list(event_tuples(seed, first, count)))


def event_tuples(seed: int, first: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Events as rows, with times as a program has them."""
    for e in (event(seed, n) for n in range(first, first + count)):
        at = START + timedelta(microseconds=e.at_us - START_US)
        yield e.n, e.k, e.kind, e.deal, e.amount, at


def move_rows(seed: int, first: int, count: int) -> pa.RecordBatch:
    made = (move(seed, n) for n in range(first, first + count))
    return _batch(MOVE, [(m.n, m.k, m.kind, m.amount) for m in made])


def _batch(declared: str, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    schema = to_schema(declared)
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

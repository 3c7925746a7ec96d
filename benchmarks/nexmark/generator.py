"""The events as Arrow, by a seed: any rows, alone and in any order, in the columns asked for.

::

    generator = Generator(seed=7)
    generator.table("bid", events=50_000, columns=("auction", "price"))
    generator.rows("bid", first=46_000, count=100)

Rows of a kind are numbered from 0 as they arrive. Those of an event are the same however many
events there are and in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa

from benchmarks.nexmark import auctions, bids, persons
from benchmarks.nexmark.chunk import Chunk
from benchmarks.nexmark.schemas import EVENTS, projected
from benchmarks.nexmark.timeline import Layout, Timeline, rows_per_chunk
from benchmarks.nexmark.vocabulary import Vocabulary

Columns = tuple[str, ...] | None

_COLUMNS = {"person": persons.COLUMNS, "auction": auctions.COLUMNS, "bid": bids.COLUMNS}
_KEPT_CHUNKS = 4
"""Chunks that a generator remembers, for readers that take a few rows at a time."""


class Generator:
    """All events of a seed. ``columns=None`` stands for all columns of a kind."""

    def __init__(self, seed: int = 1, timeline: Timeline | None = None) -> None:
        self.seed = seed
        self.timeline = timeline or Timeline()
        self._kept: dict[tuple[str, int, Columns], pa.RecordBatch] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # What it remembers is quickly made again where it is unpickled.
        return Generator, (self.seed, self.timeline)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self.seed)

    @cached_property
    def _layouts(self) -> dict[str, Layout]:
        return {kind: self.timeline.layout(kind) for kind in EVENTS}

    def chunk(self, kind: str, number: int, columns: Columns = None) -> pa.RecordBatch:
        """All rows of a kind in one chunk, as they arrive."""
        asked = (kind, number, columns)
        found = self._kept.get(asked)
        if found is None:
            found = self._make(*asked)
            while len(self._kept) >= _KEPT_CHUNKS:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[asked] = found
        return found

    def _make(self, kind: str, number: int, columns: Columns) -> pa.RecordBatch:
        layout = self._layouts[kind]
        chunk = Chunk(self.seed, number, kind, self.timeline, layout, self._vocabulary)
        schema = projected(EVENTS[kind], columns)
        arrays = [_COLUMNS[kind][name](chunk) for name in schema.names]
        made = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return made if layout.order is None else made.take(pa.array(layout.order))

    def rows(self, kind: str, first: int, count: int, columns: Columns = None) -> pa.RecordBatch:
        """So many rows of a kind, at least one, from a number on."""
        found = list(self.slices(kind, range(first, first + count), columns))
        if len(found) == 1:
            return found[0]
        return pa.Table.from_batches(found).combine_chunks().to_batches()[0]

    def slices(self, kind: str, rows: range, columns: Columns = None) -> Iterator[pa.RecordBatch]:
        """The rows of these numbers, a batch for each chunk they lie in."""
        step, at = rows_per_chunk(kind), rows.start
        while at < rows.stop:
            number, within = divmod(at, step)
            taken = min(step - within, rows.stop - at)
            yield self.chunk(kind, number, columns).slice(within, taken)
            at += taken

    def table(self, kind: str, events: int, columns: Columns = None) -> pa.Table:
        """The rows of a kind among the first events of all kinds."""
        batches = self.slices(kind, self.timeline.rows(kind, events), columns)
        return pa.Table.from_batches(batches, projected(EVENTS[kind], columns))

"""W6: lines of text are split into words, and every word is counted with its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from benchmarks.workloads import VOCABULARY, WORDS_PER_LINE, lines, word_ranks
from mainstay.api.environment import Environment
from mainstay.bench.entries import kept_entries
from mainstay.bench.running import SOURCE
from mainstay.bench.workloads import TOTALS, Workload
from mainstay.connectors.generators import Generate
from mainstay.snapshot.storage import Storage
from mainstay.state.aggregates import STATE as AGGREGATES

LINES_AT_ONCE = 1024


def line_batch(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"line": lines(first, count)})


def split_row(row: Any) -> list[tuple[str]]:
    return [(word,) for word in row.line.split()]


def split_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    words = pc.list_flatten(pc.utf8_split_whitespace(batch.column(0)))
    return pa.record_batch({"word": words})


class WordCount(ms.KeyedProcess):
    """A running count, emitted with every word."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        total = (self.total.get() or 0) + 1
        self.total.update(total)
        yield ctx.key, total


class Words(Workload):
    """Lines, split row by row."""

    emits_every_record = False

    def build(self, env: Environment) -> None:
        counted = (
            self.words(env)
            .key_by("word")
            .process(WordCount(), "word string, total long", uid=TOTALS)
        )
        counted.sink(self.sink, uid="out")

    def words(self, env: Environment) -> Any:
        return self.lines(env).flat_map(split_row, "word string", uid="split")

    def lines(self, env: Environment) -> Any:
        source = Generate("line string", line_batch, batch_rows=LINES_AT_ONCE)
        return env.source(source, uid=SOURCE)

    def expected(self, ranges: Iterable[tuple[int, int]]) -> Mapping[Any, int]:
        found = np.zeros(VOCABULARY, np.int64)
        for first, count in ranges:
            ranks = word_ranks(first * WORDS_PER_LINE, count * WORDS_PER_LINE)
            found += np.bincount(ranks, minlength=VOCABULARY)
        return {f"w{rank}": count for rank, count in enumerate(found.tolist()) if count}


class WordsByBatch(Words):
    """The same, split a batch at a time by Arrow."""

    def words(self, env: Environment) -> Any:
        return self.lines(env).map_batches(split_batch, "word string", uid="split")


class WordsAggregated(WordsByBatch):
    """Split by Arrow, counted by the aggregation that comes with the library."""

    def build(self, env: Environment) -> None:
        counted = self.words(env).key_by("word").aggregate(uid=TOTALS, total=ms.count())
        counted.sink(self.sink, uid="out")

    def totals(self, storage: Storage, env: Environment) -> Mapping[Any, int]:
        found = kept_entries(storage, env.plan(), TOTALS, AGGREGATES)
        return {word: total for word, (total,) in found}

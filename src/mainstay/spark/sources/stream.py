"""The streaming readers of a data source as unbounded sources.

The driver plans ranges of offsets (``ranges``) and has their partitions read by the
subtasks. What was planned after the last complete epoch is planned again after a failure, so only
the offsets in a snapshot count. Where a partition has to be read to its end before a snapshot, the
next ranges are planned when an epoch has shown that all before them are read. ``commit(end)``
tells the data source what it may forget: a range is committed once an epoch is complete in which
it and all before it are read to their end.

A simple reader reads at the driver, as it does in Spark, and what it read travels in the split:
it need not give the same rows twice, and ``readBetweenOffsets`` is never called.
"""

from __future__ import annotations

import base64
import inspect
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import InputPartition

from mainstay.errors import SourceError
from mainstay.runtime.connector import Json, Source, Split, SplitReader
from mainstay.schema.ipc import to_ipc
from mainstay.spark.sources.driver import DriverReader
from mainstay.spark.sources.partitions import PartitionReader, packed, unpacked
from mainstay.spark.sources.ranges import (
    Range,
    as_json,
    before_the_last,
    last_range,
    reached,
)
from mainstay.spark.sources.rows import to_batches
from mainstay.spark.sources.schema import Columns

RANGES_AHEAD = 256
"""Ranges that may be planned beyond what is known to be read; more would pile up in snapshots."""
SIMPLE_RANGES_AHEAD = 16
"""The same where the rows themselves are in the splits."""
RANGES_AT_ONCE = 16
"""Ranges of one plan: the first should not wait for the last."""


class RangesSource(Source):
    """What both kinds of readers have in common: ranges, and how far they are read."""

    bounded = False
    may_block = True
    ranges_ahead = RANGES_AHEAD

    def __init__(self, data_source: Any, columns: Columns, every_s: float, make: Any) -> None:
        self.data_source = data_source
        self.columns = columns
        self.schema = columns.schema
        self.place = f"data source {type(data_source).__name__}"
        self.replan_s = every_s
        self._every_s = every_s
        self._driver = DriverReader(partial(make, schema=columns.struct))
        self._read_number: int | None = None
        self._committed_number = 0

    # ------------------------------------------------------------ at the driver

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        with self._driver.use() as reader:
            last = last_range(seen)
            if last is None:
                return self._begin(reader)
            most = min(self._room(last), RANGES_AT_ONCE if self._gives_pieces(reader) else 1)
            splits, has_more = self._plan_after(last, most, reader)
            # A limit has cut it short where a whole plan was used: there is more at once.
            is_cut_short = has_more and most > 1
            self.replan_s = 0.0 if is_cut_short else self._every_s
            return splits

    def _begin(self, reader: Any) -> list[Split]:
        """The first range, which remembers where the data source began, and what follows it."""
        initial = as_json(reader.initialOffset(), self.place)
        first = Range(0, initial, initial)
        splits, _ = self._plan_after(first, 1, reader)
        return self._splits(first, []) + splits

    def _room(self, last: Range) -> int:
        """How many ranges may be planned now."""
        if self._read_number is None:
            self._read_number = last.number
        return self.ranges_ahead - max(0, last.number - self._read_number)

    def _plan_after(self, last: Range, most: int, reader: Any) -> tuple[list[Split], bool]:
        """The splits of the next ranges, and whether there may be more."""
        splits: list[Split] = []
        for _ in range(most):
            end, parts = self._next(last.end, reader)
            if end == last.end:
                return splits, False
            last = Range(last.number + 1, last.end, end)
            splits += self._splits(last, parts)
        return splits, True

    def _splits(self, planned: Range, parts: Sequence[Json]) -> list[Split]:
        return [Split(planned.split_id(n), part) for n, part in enumerate(parts or [None])]

    @abstractmethod
    def _gives_pieces(self, reader: Any) -> bool:
        """Whether the reader names offsets within a limit, so that there may be more behind."""

    @abstractmethod
    def _next(self, start: Json, reader: Any) -> tuple[Json, Sequence[Json]]:
        """Where the next range ends, and the data of its splits."""

    def forget(self, seen: frozenset[str]) -> Collection[str]:
        return before_the_last(seen)

    def on_complete(self, seen: frozenset[str], unfinished: Mapping[str, Json]) -> None:
        found = reached(seen, unfinished)
        if found is None:
            return
        with self._driver.use() as reader:
            self._read_number = found.number
            if found.number > self._committed_number:
                reader.commit(found.offset)
                self._committed_number = found.number

    # ------------------------------------------------------------ at the workers

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        def opened() -> Iterator[pa.RecordBatch]:
            return iter(()) if split.data is None else self._batches(split.data)

        return PartitionReader(opened, offset, self.place, replayable=not self.atomic_splits)

    @abstractmethod
    def _batches(self, data: Json) -> Iterator[pa.RecordBatch]:
        """The rows of a split, from its beginning."""


class StreamReaderSource(RangesSource):
    """A ``DataSourceStreamReader``: its partitions are read by the subtasks."""

    keeps_pickles = True

    def __init__(
        self, data_source: Any, columns: Columns, every_s: float, *, deterministic: bool
    ) -> None:
        super().__init__(data_source, columns, every_s, data_source.streamReader)
        self.atomic_splits = not deterministic
        # One after the other, so that a snapshot waits for the end of one at most.
        self.reads_at_once = 4 if deterministic else 1

    def _gives_pieces(self, reader: Any) -> bool:
        limit = _limit_of(reader)
        return limit is not None and type(limit).__name__ != "ReadAllAvailable"

    def _next(self, start: Json, reader: Any) -> tuple[Json, Sequence[Json]]:
        limit = _limit_of(reader)
        found = reader.latestOffset() if limit is None else reader.latestOffset(start, limit)
        end = as_json(found, self.place)
        if end == start:
            return end, []
        partitions = list(reader.partitions(start, end))
        for partition in partitions:
            if not isinstance(partition, InputPartition):
                raise SourceError(
                    f"{self.place} planned {partition!r}, which is no InputPartition. Have "
                    "partitions(start, end) return instances of it or of a subclass."
                )
        return end, [packed(partition, self.place) for partition in partitions]

    def _batches(self, data: Json) -> Iterator[pa.RecordBatch]:
        reader = self.data_source.streamReader(schema=self.columns.struct)
        return to_batches(reader.read(unpacked(data, self.place)), self.columns, self.place)


class SimpleReaderSource(RangesSource):
    """A ``SimpleDataSourceStreamReader``: one reading after the other, each a split."""

    ranges_ahead = SIMPLE_RANGES_AHEAD
    reads_at_once = 1

    def __init__(self, data_source: Any, columns: Columns, every_s: float) -> None:
        super().__init__(data_source, columns, every_s, data_source.simpleStreamReader)

    def _gives_pieces(self, reader: Any) -> bool:
        return False

    def _next(self, start: Json, reader: Any) -> tuple[Json, Sequence[Json]]:
        elements, after = reader.read(start)
        end = as_json(after, self.place)
        batches = list(to_batches(elements, self.columns, self.place))
        if batches and end == start:
            raise SourceError(
                f"{self.place} read {sum(b.num_rows for b in batches)} rows from {start!r} on and "
                "says to go on at the same offset: they would be read for ever. Have read(start) "
                "return the offset after its rows."
            )
        return end, [_encoded(batches, self.schema)] if batches else []

    def _batches(self, data: Json) -> Iterator[pa.RecordBatch]:
        return iter(pa.ipc.open_stream(base64.b64decode(data)))


def _encoded(batches: list[pa.RecordBatch], schema: pa.Schema) -> str:
    return base64.b64encode(to_ipc(batches, schema, compression="zstd")).decode("ascii")


def _limit_of(reader: Any) -> Any | None:
    """The limit to ask for offsets with; None for readers that take none, as before Spark 4.2."""
    if not inspect.signature(reader.latestOffset).parameters:
        return None
    if not hasattr(reader, "getDefaultReadLimit"):
        raise SourceError(
            f"latestOffset of {type(reader).__name__} takes a limit, which PySpark has since 4.2; "
            f"PySpark {pyspark.__version__} is installed. Install a newer one, or have "
            "latestOffset take no arguments."
        )
    return reader.getDefaultReadLimit()

"""The batch reader of a data source as a bounded source: a split is a partition."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from mainstay.runtime.connector import Json, Source, Split, SplitReader
from mainstay.spark.sources.partitions import PartitionReader, packed, unpacked
from mainstay.spark.sources.rows import to_batches
from mainstay.spark.sources.schema import Columns

FORMAT = 1
MOST_IN_MARK = 100


class BatchReaderSource(Source):
    """Reads a data source once, from its beginning to its end.

    When the job is started again, partitions after those it knows are new. One that is no longer
    what it was is refused, as far as its ``repr`` tells.
    """

    keeps_pickles = True

    may_block = True
    new_input = "partitions after those that were read"

    def __init__(self, data_source: Any, columns: Columns, *, deterministic: bool) -> None:
        self.data_source = data_source
        self.columns = columns
        self.schema = columns.schema
        self.atomic_splits = not deterministic
        # One after the other, so that a snapshot waits for the end of one at most.
        self.reads_at_once = 4 if deterministic else 1
        self.place = f"data source {type(data_source).__name__}"

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [
            Split(
                json.dumps({"format": FORMAT, "part": part}),
                packed(partition, self.place),
                _mark_of(partition),
            )
            for part, partition in enumerate(self._partitions())
        ]

    def _partitions(self) -> Sequence[Any]:
        try:
            return list(self._reader().partitions())
        except NotImplementedError:
            # Readers written for Spark 4.0 say in this way that there is but one.
            return [InputPartition(None)]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        def opened() -> Any:
            partition = unpacked(split.data, self.place)
            return to_batches(self._reader().read(partition), self.columns, self.place)

        return PartitionReader(opened, offset, self.place, replayable=not self.atomic_splits)

    def _reader(self) -> Any:
        return self.data_source.reader(schema=self.columns.struct)


def _mark_of(partition: Any) -> str | None:
    """What a partition says of itself, if that is the same in every process."""
    text = repr(partition)
    if " at 0x" in text:
        return None
    if len(text) <= MOST_IN_MARK:
        return text
    return f"{text[:MOST_IN_MARK]}... (checksum {zlib.crc32(text.encode()):08x})"

"""The reader of a partition holds the data source's own iterator, and gives it back."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from mainstay.spark.sources.partitions import PartitionReader


def test_a_reader_that_is_closed_ends_the_iterator_of_the_data_source() -> None:
    happened: list[str] = []

    def opened() -> Iterator[pa.RecordBatch]:
        happened.append("opened")
        try:
            for n in range(3):
                yield pa.record_batch({"n": [n, n, n]})
        finally:
            happened.append("closed")

    reader = PartitionReader(opened, None, "data source Numbers", replayable=True)
    assert happened == []
    polled = reader.poll(2)
    assert polled.batch is not None
    assert polled.batch.num_rows == 2
    reader.close()
    assert happened == ["opened", "closed"]

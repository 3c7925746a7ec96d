"""The partitions of a data source as splits, and the reader of one.

A partition travels pickled in its split, and so through snapshots. ``read(partition)`` is called
where the split is read; whether the same rows come again in the same order is for the job's
author to say. If they do, those that were read before are left out. If not, a partition is read
to its end before a snapshot, and a failure in its middle ends the attempt.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

import cloudpickle
import pyarrow as pa

from mainstay.errors import SourceError, named
from mainstay.runtime.connector import UNAVAILABLE, Json, Polled, SplitReader

Opened = Callable[[], Iterator[pa.RecordBatch]]


def packed(partition: Any, place: str) -> str:
    """A partition as the data of a split."""
    try:
        return base64.b64encode(cloudpickle.dumps(partition)).decode("ascii")
    except Exception as error:
        raise SourceError(
            f"{place} planned the partition {partition!r}, which cannot be pickled: {error}. Keep "
            "connections and locks out of it."
        ) from error


def unpacked(data: Json, place: str) -> Any:
    try:
        return cloudpickle.loads(base64.b64decode(data))
    except Exception as error:
        raise SourceError(
            f"a partition of {place} cannot be unpickled: {named(error)}. Its "
            "class has to be where it was when the partition was planned, on every worker."
        ) from error


class PartitionReader(SplitReader):
    """Reads what ``opened`` gives. Nothing is opened before the first poll.

    An offset is a number of rows and a mark of the last of them. A second reading that has
    another row there is not what was promised, and ends the attempt instead of the guarantee.
    """

    def __init__(
        self, opened: Opened, offset: Json | None, place: str, *, replayable: bool
    ) -> None:
        self._opened = opened
        self._rows: int = 0 if offset is None else offset[0]
        self._mark: int = 0 if offset is None else offset[1]
        self._place = place
        self._is_replayable = replayable
        self._batches: Generator[pa.RecordBatch, None, None] | None = None
        self._rest: pa.RecordBatch | None = None

    def poll(self, max_rows: int) -> Polled:
        if self._rest is None:
            self._rest = self._next()
        if self._rest is None:
            return Polled(None, [self._rows, self._mark], finished=True)
        taken, rest = self._rest.slice(0, max_rows), self._rest.slice(max_rows)
        self._rest = rest if rest.num_rows else None
        self._rows += taken.num_rows
        self._mark = _mark_of_last(taken)
        return Polled(taken, [self._rows, self._mark])

    def close(self) -> None:
        """End the data source's own iterator, which may hold a connection."""
        if self._batches is not None:
            self._batches.close()

    def _next(self) -> pa.RecordBatch | None:
        try:
            if self._batches is None:
                self._batches = self._after(self._rows, self._opened())
            return next(self._batches, None)
        except UNAVAILABLE as error:
            if self._rows and not self._is_replayable:
                raise self._lost(error) from error
            raise

    def _after(
        self, rows: int, batches: Iterator[pa.RecordBatch]
    ) -> Generator[pa.RecordBatch, None, None]:
        """What comes after the rows that were read before."""
        to_skip = rows
        for batch in batches:
            skipped = min(to_skip, batch.num_rows)
            to_skip -= skipped
            if skipped and not to_skip:
                self._check(_mark_of_last(batch.slice(0, skipped)))
            if skipped < batch.num_rows:
                yield batch.slice(skipped)
        if to_skip:
            self._check(None)

    def _check(self, mark: int | None) -> None:
        if mark != self._mark:
            raise SourceError(
                f"a partition of {self._place} does not give the same rows again: the first "
                f"{self._rows} are not what they were. Leave out deterministic=True."
            )

    def _lost(self, error: Exception) -> SourceError:
        lost = SourceError(
            f"{self._place} was lost after {self._rows} rows of a partition "
            f"({named(error)}), and does not promise the same rows again: the "
            "job goes on from its last snapshot. If it would give them again, say "
            "pyspark_source(..., deterministic=True)."
        )
        lost.is_final = False
        return lost


def _mark_of_last(batch: pa.RecordBatch) -> int:
    return zlib.crc32(repr(batch.slice(batch.num_rows - 1).to_pylist()).encode())

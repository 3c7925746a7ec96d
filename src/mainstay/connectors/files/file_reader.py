"""Reads one file from a number of records on, and refuses one that has changed since."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.connectors.files.formats import read_blocks
from mainstay.connectors.files.found_files import Stamp
from mainstay.connectors.files.sifting import Sifted
from mainstay.connectors.formats.malformed import settle
from mainstay.errors import SchemaError, SourceError
from mainstay.runtime.connector import Polled, SplitReader
from mainstay.spelling import unended


@dataclass(frozen=True, slots=True)
class Place:
    """A file to be read, as it was when it was planned."""

    path: str
    format: str
    stamp: Stamp

    def check(self) -> None:
        """Refuse a file that is not the one that was planned."""
        status = os.stat(self.path)
        found = Stamp(status.st_size, status.st_mtime_ns)
        if not self.stamp.fits(found):
            raise SourceError(
                f"file {self.path!r} is not the one that the job planned: it had {self.stamp} and "
                f"has {found}. A file must not change while a job reads it: put the old one back "
                "(if only its time is another, set that with touch -d @SECONDS), or start the job "
                "afresh in another snapshot directory."
            )

    def broken(self, problem: Any) -> SourceError:
        return SourceError(
            f"file {self.path!r} ({self.format}): {unended(problem)}. Correct the file, or the "
            "schema= and format= that Files() was given."
        )


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Rows of a file, and for each the offset after it; ``end`` is the offset after all of it.

    An offset is a number of records. It is more than that of rows where bad ones are left out.
    """

    rows: pa.RecordBatch
    offsets: Sequence[int]
    end: int
    skipped: int = 0


class FileReader(SplitReader):
    """Nothing is opened before the first poll, which runs where waiting is allowed."""

    def __init__(
        self, place: Place, schema: pa.Schema, batch_rows: int, offset: int, malformed: str
    ) -> None:
        self._offset = offset
        self._batch_rows = batch_rows
        self._chunks = _chunks(place, schema, offset, malformed)
        self._chunk: _Chunk | None = None
        self._taken = 0

    def poll(self, max_rows: int) -> Polled:
        if self._chunk is None:
            self._chunk, self._taken = next(self._chunks, None), 0
            if self._chunk is None:
                return Polled(None, self._offset, finished=True)
            self.skipped += self._chunk.skipped
        chunk = self._chunk
        rows = chunk.rows.slice(self._taken, min(max_rows, self._batch_rows))
        self._taken += rows.num_rows
        is_whole = self._taken >= chunk.rows.num_rows
        self._offset = chunk.end if is_whole else chunk.offsets[self._taken - 1]
        if is_whole:
            self._chunk = None
        return Polled(rows if rows.num_rows else None, self._offset)

    def close(self) -> None:
        self._chunks.close()


def _chunks(
    place: Place, schema: pa.Schema, skip: int, malformed: str
) -> Generator[_Chunk, None, None]:
    """The rows of a file after a number of records."""
    try:
        place.check()
        for block in read_blocks(place.path, place.format, schema, skip):
            if block.records:
                yield _chunk(block, skip, malformed)
            skip += block.records
        place.check()
    except (pa.ArrowException, OSError, EOFError, zlib.error, SchemaError) as error:
        raise place.broken(error) from error


def _chunk(block: Sifted, done: int, malformed: str) -> _Chunk:
    numbers = range(done + 1, done + block.records + 1)
    rows = settle(malformed, block.good, block.bad)
    if not block.bad or malformed != "skip":
        return _Chunk(rows, numbers, done + block.records)
    offsets = [number for at, number in enumerate(numbers) if at not in block.bad]
    return _Chunk(rows, offsets, done + block.records, len(block.bad))

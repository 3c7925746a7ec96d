"""CSV and JSON-lines files record by record: to find the records that do not fit a schema.

A block of records is parsed as a whole; where that fails, each half by itself, down to the records
that fail alone. So good records cost little, and a bad one some tries.

A record of CSV ends with the line in which its quotes are closed, so a quote that is never closed
makes one record of everything after it.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, cast

import pyarrow as pa

from mainstay.connectors.malformed import BadRecord
from mainstay.errors import SchemaError

Parse = Callable[[Sequence["Record"]], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Record:
    """The bytes of one record, with its line ends, and the number of its first line."""

    line: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Sifted:
    """The rows of the good records of a block, and what is wrong with the bad, by their numbers."""

    good: pa.RecordBatch
    bad: Mapping[int, BadRecord]
    records: int


def csv_records(file: IO[bytes]) -> Iterator[Record]:
    """The records of a CSV file, the header among them; empty lines are none."""
    parts: list[bytes] = []
    quotes = begin = 0
    for number, line in enumerate(file, 1):
        if not parts:
            if not line.strip(b"\r\n"):
                continue
            begin = number
        parts.append(line)
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            yield Record(begin, b"".join(parts))
            parts, quotes = [], 0
    if parts:
        yield Record(begin, b"".join(parts))


def json_records(file: IO[bytes]) -> Iterator[Record]:
    """The lines of a file that are not empty."""
    return (Record(n, line) for n, line in enumerate(file, 1) if line.strip())


def open_text(path: str) -> IO[bytes]:
    """A file of lines, unpacked where its name says that it is packed."""
    if path.endswith(".gz"):
        return cast(IO[bytes], gzip.open(path))
    return io.BufferedReader(pa.input_stream(path, compression="detect"))


def joined(records: Sequence[Record]) -> bytes:
    return b"".join(r.raw if r.raw.endswith(b"\n") else r.raw + b"\n" for r in records)


def sifted_blocks(
    path: str, records: Iterator[Record], parse: Parse, nothing: pa.RecordBatch, block_rows: int
) -> Iterator[Sifted]:
    """The records of a file, a block at a time. ``nothing`` is a batch without rows."""
    while block := list(islice(records, block_rows)):
        batches: list[pa.RecordBatch] = []
        bad: dict[int, BadRecord] = {}
        for number, outcome in _sift(block, 0, parse):
            if isinstance(outcome, str):
                record = block[number]
                bad[number] = BadRecord(
                    f"{path}:{record.line}", outcome, record.raw.rstrip(b"\r\n")
                )
            else:
                batches.append(outcome)
        good = pa.Table.from_batches(batches, nothing.schema).combine_chunks().to_batches()
        yield Sifted(good[0] if good else nothing, bad, len(block))


def _sift(block: Sequence[Record], first: int, parse: Parse) -> Iterator[tuple[int, Any]]:
    """The rows of runs of good records, or the error of a bad one, each with its first number."""
    try:
        batch = parse(block)
        if batch.num_rows != len(block):
            raise SchemaError("a record must be one row")
    except (pa.ArrowException, SchemaError) as error:
        if len(block) == 1:
            yield first, str(error)
            return
        middle = len(block) // 2
        yield from _sift(block[:middle], first, parse)
        yield from _sift(block[middle:], first + middle, parse)
    else:
        yield first, batch

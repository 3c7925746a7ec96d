"""The good records of a block as rows, and the bad ones apart.

A block is parsed as a whole. Only where that is not possible it is taken apart into records: those
are parsed together, and where that fails, each half by itself, down to the records that fail alone.
So good records cost little, and a bad one some tries. Both ways read the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from mainstay.connectors.files.records import Record
from mainstay.connectors.files.text_blocks import Block, Layout
from mainstay.connectors.formats.malformed import BadRecord
from mainstay.errors import SchemaError

ERRORS = (pa.ArrowException, SchemaError)
"""What parsers raise for records that do not fit."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """The rows of the good records of a block, and what is wrong with the bad, by their numbers."""

    good: pa.RecordBatch
    bad: Mapping[int, BadRecord]
    records: int


class Parser(Protocol):
    """How records become rows of a schema, in both ways. An error tells of what does not fit."""

    def whole(self, data: bytes, records: int) -> pa.RecordBatch:
        """The rows of a block with so many records; an error where it cannot vouch for each."""

    def each(self, records: Sequence[Record]) -> pa.RecordBatch:
        """The rows of records, one of each."""


def sifted(path: str, block: Block, layout: Layout, parser: Parser, schema: pa.Schema) -> Sifted:
    """What became of the records of a block."""
    if block.records is not None:
        try:
            batch = parser.whole(block.data, block.records)
            if batch.num_rows == block.records:
                return Sifted(batch, {}, batch.num_rows)
        except ERRORS:
            pass  # which record it is shows below, or that it was none
    return sifted_apart(path, list(layout.records_of(block)), parser.each, schema)


def sifted_apart(
    path: str,
    records: Sequence[Record],
    parse: Callable[[Sequence[Record]], pa.RecordBatch],
    schema: pa.Schema,
) -> Sifted:
    """What became of records that may be bad."""
    batches: list[pa.RecordBatch] = []
    bad: dict[int, BadRecord] = {}
    for number, outcome in _halved(records, 0, parse) if records else ():
        if isinstance(outcome, str):
            record = records[number]
            bad[number] = BadRecord(f"{path}:{record.line}", outcome, record.raw.rstrip(b"\r\n"))
        else:
            batches.append(outcome)
    good = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    nothing = pa.RecordBatch.from_pylist([], schema)
    return Sifted(good[0] if good else nothing, bad, len(records))


def _halved(
    records: Sequence[Record],
    first: int,
    parse: Callable[[Sequence[Record]], pa.RecordBatch],
) -> Iterator[tuple[int, Any]]:
    """The rows of runs of good records, or the error of a bad one, each with its first number."""
    try:
        batch = parse(records)
        if batch.num_rows != len(records):
            raise SchemaError("a record must be one row")
    except ERRORS as error:
        if len(records) == 1:
            yield first, str(error)
            return
        middle = len(records) // 2
        yield from _halved(records[:middle], first, parse)
        yield from _halved(records[middle:], first + middle, parse)
    else:
        yield first, batch

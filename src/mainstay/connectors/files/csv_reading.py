"""CSV as rows: blocks of it, and records of which some may not fit. A hot path.

Numbers are parsed with the rest where that means the same. Arrow by itself takes ``0x10`` for 16
and ``1e400`` for infinity: where either may be, numbers are texts first.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mainstay.connectors.files.columns import check_columns, fitted
from mainstay.connectors.files.part_names import attempt_of
from mainstay.connectors.files.records import Record, csv_records, joined
from mainstay.connectors.files.text_blocks import Block, Csv, block_of, blocks_of
from mainstay.connectors.formats.text_numbers import narrowed
from mainstay.errors import SchemaError

_HEADER = ". The first line of a CSV file must name its columns, with commas between them"


@dataclass(frozen=True, slots=True)
class CsvParser:
    """Parses records below a header."""

    header: Record
    names: list[str]
    schema: pa.Schema
    keep_empty: bool

    def whole(self, data: bytes, records: int) -> pa.RecordBatch:
        numbers_are_texts = _may_be_hexadecimal(data)
        batch = self._parsed(data, self.names, numbers_are_texts=numbers_are_texts)
        if not numbers_are_texts and _has_infinity(batch):
            numbers_are_texts = True
            batch = self._parsed(data, self.names, numbers_are_texts=True)
        return fitted(batch if numbers_are_texts else self._narrowed(batch), self.schema)

    def each(self, records: Sequence[Record]) -> pa.RecordBatch:
        # Arrow takes no rows, or an empty line, for damaged where there is no header.
        header = b"".join((self.header.raw.rstrip(b"\r\n"), b"\n"))
        parsed = self._parsed(header + joined(records), None, numbers_are_texts=True)
        return fitted(parsed, self.schema)

    def _narrowed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for number, field in enumerate(self.schema):
            if pa.types.is_float32(field.type):
                narrow = narrowed(batch.column(field.name), field.type)
                batch = batch.set_column(number, field.name, narrow)
        return batch

    def _parsed(
        self, data: bytes, names: list[str] | None, *, numbers_are_texts: bool
    ) -> pa.RecordBatch:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=names
            ),
            parse_options=pa.csv.ParseOptions(
                newlines_in_values=True, ignore_empty_lines=not self.keep_empty
            ),
            convert_options=self._conversion(numbers_are_texts=numbers_are_texts),
        )
        if not table.num_rows:
            return pa.RecordBatch.from_pylist([], table.schema)
        return table.combine_chunks().to_batches()[0]

    def _conversion(self, *, numbers_are_texts: bool) -> Any:
        types = {field.name: _parsed_type(field.type, numbers_are_texts) for field in self.schema}
        return pa.csv.ConvertOptions(
            column_types=types,
            include_columns=self.schema.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )


def _parsed_type(data_type: pa.DataType, numbers_are_texts: bool) -> pa.DataType:
    """What a column is parsed as: Arrow's parser is particular about dates and zones, too."""
    if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
        return pa.string()
    if pa.types.is_integer(data_type):
        return pa.string() if numbers_are_texts else data_type
    if pa.types.is_floating(data_type):
        return pa.string() if numbers_are_texts else pa.float64()
    return data_type


def _may_be_hexadecimal(data: bytes) -> bool:
    """Whether a zero stands before an x anywhere; most often there is no x at all."""
    if b"x" not in data and b"X" not in data:
        return False
    letters = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(letters | 32 == ord("x"))
    return bool((letters[places - 1] == ord("0")).any())


def _has_infinity(batch: pa.RecordBatch) -> bool:
    columns = (column for column in batch.columns if pa.types.is_floating(column.type))
    return any(pc.any(pc.is_inf(column)).as_py() for column in columns)


def csv_blocks(
    path: str, file: IO[bytes], schema: pa.Schema
) -> tuple[Iterator[Block], Csv, CsvParser] | None:
    """The blocks below the header, and how to read them; None where there is no header."""
    blocks = blocks_of(file, Csv(keep_empty=False))
    for block in blocks:
        if (header := next(csv_records(block.data, block.line), None)) is not None:
            break
    else:
        return None
    names = _names(header)
    check_columns(schema, names, _HEADER)
    # Where a sink wrote a file of one column an empty line is a null; else it is no row.
    layout = Csv(keep_empty=len(names) == 1 and attempt_of(os.path.basename(path)) is not None)
    first = _below(block, header, layout)
    return (
        _again(first, blocks, layout),
        layout,
        CsvParser(header, names, schema, layout.keep_empty),
    )


def _below(block: Block, header: Record, layout: Csv) -> Block:
    """A block without its header and the empty lines before it."""
    begin = len(block.data) - len(block.data.lstrip(b"\r\n"))
    data = block.data[begin + len(header.raw) :]
    return block_of(header.line + len(header.raw.splitlines()), data, layout)


def _again(first: Block, blocks: Iterator[Block], layout: Csv) -> Iterator[Block]:
    """Blocks whose records are counted by this layout."""
    if first.data:
        yield first
    for block in blocks:
        yield block_of(block.line, block.data, layout) if layout.keep_empty else block


def _names(header: Record) -> list[str]:
    # A header that is the last line may have no end of line, without which Arrow sees none.
    whole = io.BytesIO(header.raw + b"\n")
    try:
        return pa.csv.read_csv(whole).column_names  # type: ignore[no-any-return]
    except UnicodeDecodeError as error:
        raise SchemaError(
            f"the header in line {header.line} is not UTF-8. Convert the file, as in "
            "iconv -f LATIN1 -t UTF-8"
        ) from error

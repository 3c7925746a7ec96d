"""Files of lines in blocks of whole records. A hot path.

A block is about two megabytes, or one record that is longer. Where all of its line ends are plain
to see, numpy finds them and counts the records; else ``records_of`` goes through it line by line.
Which of both it was changes nothing in what the records are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import IO, Any

import numpy as np

from mainstay.connectors.files.records import Record, csv_records, json_records, whole_csv_bytes
from mainstay.connectors.formats.json_lines import Bytes, Places, count_objects

BLOCK_BYTES = 2 << 20
_LF, _CR, _QUOTE, _COMMA = b'\n\r",'
_BEFORE_FIELD, _BEHIND_FIELD = np.zeros((2, 256), dtype=bool)
_BEFORE_FIELD[[_COMMA, _LF, _CR]] = True
_BEHIND_FIELD[[_COMMA, _LF, _CR, _QUOTE]] = True


@dataclass(frozen=True, slots=True)
class Measured:
    """How many bytes whole records take, in how many lines, and how many records that are, or None
    if only going through them tells."""

    size_bytes: int
    lines: int
    records: int | None


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records, and the number of their first line."""

    line: int
    data: bytes
    records: int | None


class Layout:
    """How the records of a format lie in a file."""

    def measure(self, data: bytes, *, is_end: bool) -> Measured:
        """The whole records that data begins with: all of it at the end of a file."""
        raise NotImplementedError

    def records_of(self, block: Block) -> Iterator[Record]:
        raise NotImplementedError

    def lines_of(self, data: bytes) -> Iterable[bytes]:
        raise NotImplementedError


class JsonLines(Layout):
    """A record is a line that is not empty."""

    def measure(self, data: bytes, *, is_end: bool) -> Measured:
        size = len(data) if is_end else data.rfind(b"\n") + 1
        letters = np.frombuffer(data, np.uint8, size)
        ends = np.flatnonzero(letters == _LF)
        return Measured(size, len(ends), count_objects(letters, ends))

    def records_of(self, block: Block) -> Iterator[Record]:
        return json_records(block.data, block.line)

    def lines_of(self, data: bytes) -> Iterable[bytes]:
        return BytesIO(data)


@dataclass(frozen=True, slots=True)
class Csv(Layout):
    """A record ends at a line end that is in no quotes."""

    keep_empty: bool

    def measure(self, data: bytes, *, is_end: bool) -> Measured:
        letters = np.frombuffer(data, np.uint8)
        ends, lines = _plain_ends(data, letters, is_end=is_end)
        if ends is None:
            size = len(data) if is_end else whole_csv_bytes(data)
            return Measured(size, len(data[:size].splitlines()), None)
        size = len(data) if is_end else int(ends[-1]) + 1 if len(ends) else 0
        if lines is None:
            lines = int(np.count_nonzero(letters[:size] == _LF))
        return Measured(size, lines, self._count(letters[:size], ends))

    def _count(self, letters: Bytes, ends: Places) -> int:
        has_rest = len(letters) > (int(ends[-1]) + 1 if len(ends) else 0)
        if self.keep_empty or not len(ends):
            return len(ends) + has_rest
        lengths = np.diff(ends, prepend=-1)
        is_empty = lengths == 1
        is_empty |= (lengths == 2) & (letters[ends - 1] == _CR)
        return len(ends) - int(np.count_nonzero(is_empty)) + has_rest

    def records_of(self, block: Block) -> Iterator[Record]:
        return csv_records(block.data, block.line, keep_empty=self.keep_empty)

    def lines_of(self, data: bytes) -> Iterable[bytes]:
        return data.splitlines(keepends=True)


def _plain_ends(data: bytes, letters: Bytes, *, is_end: bool) -> tuple[Places | None, int | None]:
    """The line ends that are in no quotes, and the number of all where there are no others. No line
    ends at all where a quote, or a CR, is not a plain one."""
    if b"\r" in data and not _are_halves(letters, is_end=is_end):
        return None, None
    if b'"' not in data:
        ends = np.flatnonzero(letters == _LF)
        return ends, len(ends)
    marks = np.flatnonzero((letters == _LF) | (letters == _QUOTE))
    is_quote = letters.take(marks) == _QUOTE
    numbers = np.flatnonzero(is_quote)
    quotes, ends = marks.take(numbers), marks.compress(~is_quote)
    begins_field = _BEFORE_FIELD.take(letters.take(quotes - 1))
    begins_field[0] |= quotes[0] == 0
    if not begins_field.any():
        # Without one at the beginning of a field they are letters like others.
        return ends, len(ends)
    if not _are_paired(letters, quotes, begins_field) or (is_end and len(quotes) % 2):
        return None, None
    if len(quotes) % 2 == 0 and (numbers[1::2] - numbers[::2] == 1).all():
        return ends, len(ends)  # there is none between two quotes
    return ends[np.cumsum(is_quote)[~is_quote] % 2 == 0], None


def _are_halves(letters: Bytes, *, is_end: bool) -> bool:
    """Whether an LF comes behind each CR, or what comes is not known yet."""
    returns = np.flatnonzero(letters == _CR)
    if returns[-1] == len(letters) - 1:
        if is_end:
            return False
        returns = returns[:-1]
    return bool((letters[returns + 1] == _LF).all())


def _are_paired(letters: Bytes, quotes: Places, begins_field: Any) -> bool:
    """Whether one quote opens, the next closes, and so on. A quote within quotes is written twice,
    which closes and opens at once."""
    opening, closing = quotes[::2], quotes[1::2]
    is_twice = np.zeros(len(opening), dtype=bool)
    is_twice[1:] = opening[1:] - closing[: len(opening) - 1] == 1
    if not (begins_field[::2] | is_twice).all():
        return False
    if len(closing) and closing[-1] == len(letters) - 1:
        closing = closing[:-1]
    return bool(_BEHIND_FIELD.take(letters.take(closing + 1)).all())


def blocks_of(file: IO[bytes], layout: Layout) -> Iterator[Block]:
    """The records of a file, a block at a time."""
    rest, line = b"", 1
    while chunk := file.read(max(BLOCK_BYTES, len(rest))):
        data = rest + chunk
        measured = layout.measure(data, is_end=False)
        size = measured.size_bytes
        if size:
            yield Block(line, data[:size], measured.records)
        rest, line = data[size:], line + measured.lines
    if rest:
        yield Block(line, rest, layout.measure(rest, is_end=True).records)


def after(blocks: Iterator[Block], layout: Layout, skip: int) -> Iterator[Block]:
    """The blocks behind a number of records; of the first only what is behind them."""
    for block in blocks:
        if skip:
            count = block.records
            if count is None:
                count = sum(1 for _ in layout.records_of(block))
            if count <= skip:
                skip -= count
                continue
            block, skip = _without(block, layout, skip), 0
        yield block


def _without(block: Block, layout: Layout, skip: int) -> Block:
    first = next(islice(layout.records_of(block), skip, None))
    before = islice(layout.lines_of(block.data), first.line - block.line)
    return block_of(first.line, block.data[sum(map(len, before)) :], layout)


def block_of(line: int, data: bytes, layout: Layout) -> Block:
    """A block of data that ends where a record does."""
    return Block(line, data, layout.measure(data, is_end=True).records)

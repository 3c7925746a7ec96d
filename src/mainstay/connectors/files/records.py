"""CSV and JSON-lines files record by record: to find the records that do not fit a schema.

A block of records is parsed as a whole; where that fails, each half by itself, down to the records
that fail alone. So good records cost little, and a bad one some tries.

Records of CSV are told apart as pyarrow does, so that reading them one by one gives the rows that
reading the file gives. A line ends with CR, LF or both. A quote means something only where a field
begins; there it may hold line ends, up to the quote that closes it. One that is never closed makes
one record of everything after it.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, NamedTuple

import pyarrow as pa

from mainstay.connectors.formats.malformed import BadRecord
from mainstay.errors import SchemaError, SourceError

Parse = Callable[[Sequence["Record"]], pa.RecordBatch]


class Record(NamedTuple):  # quicker to make than a dataclass, and there is one for each line
    """The bytes of one record, with its line ends, and the number of its first line."""

    line: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Sifted:
    """The rows of the good records of a block, and what is wrong with the bad, by their numbers."""

    good: pa.RecordBatch
    bad: Mapping[int, BadRecord]
    records: int


_QUOTED = rb'"[^"]*(?:""[^"]*)*"(?!")[^,\r\n]*'
_FIELD = rb"(?:" + _QUOTED + rb'|[^",\r\n][^,\r\n]*)?'
_FIELDS = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*")
"""As many whole fields as there are: it stops before a quote that is not closed."""
_REST_OF_QUOTED = re.compile(rb'[^"]*(?:""[^"]*)*"(?!")[^,\r\n]*')
_MARK = b"\xef\xbb\xbf"
"""What some programs begin a file of UTF-8 with."""
_CHUNK_BYTES = 1 << 20


def csv_records(file: IO[bytes], *, keep_empty: bool = False) -> Iterator[Record]:
    """The records of a CSV file, the header among them; empty lines are none unless kept."""
    parts: list[bytes] = []
    begin = 0
    for number, line in enumerate(_lines(file), 1):
        if not parts:
            if not keep_empty and not line.strip(b"\r\n"):
                continue
            begin = number
        is_open = _is_open(line, in_quotes=bool(parts))
        parts.append(line)
        if not is_open:
            yield Record(begin, b"".join(parts))
            parts = []
    if parts:
        yield Record(begin, b"".join(parts))


def _is_open(line: bytes, *, in_quotes: bool) -> bool:
    """Whether a field that was begun in quotes goes on after the line."""
    if b'"' not in line:
        return in_quotes
    at = len(_MARK) if line.startswith(_MARK) and not in_quotes else 0
    if in_quotes:
        closed = _REST_OF_QUOTED.match(line)
        if closed is None:
            return True
        at = closed.end()
        if line[at : at + 1] != b",":
            return False
        at += 1
    fields = _FIELDS.match(line, at)
    return fields is not None and line[fields.end() : fields.end() + 1] == b'"'


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, however they end."""
    rest = b""
    while chunk := file.read(_CHUNK_BYTES):
        lines = (rest + chunk).splitlines(keepends=True)
        # The last may go on in the next chunk, also if it ends with half of an end.
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        yield from lines
    if rest:
        yield rest


def json_records(file: IO[bytes]) -> Iterator[Record]:
    """The lines of a file that are not empty."""
    for number, line in enumerate(file, 1):
        raw = line.removeprefix(_MARK) if number == 1 else line
        if raw.strip():
            yield Record(number, raw)


def open_text(path: str) -> IO[bytes]:
    """A file of lines, unpacked where its name says that it is packed."""
    is_packed = path.endswith(".gz")
    raw = gzip.GzipFile(path) if is_packed else pa.input_stream(path, compression="detect")
    file = io.BufferedReader(raw)
    begin = file.peek(4)[:4]
    if _is_utf_16(begin):
        file.close()
        raise SourceError(
            f"{path} is UTF-16, by its first bytes ({begin.hex(' ')}), and files are read as "
            "UTF-8. Convert it, as in iconv -f UTF-16 -t UTF-8."
        )
    return file


def _is_utf_16(begin: bytes) -> bool:
    """By its mark, or because every other byte of plain text is zero."""
    zeros = [byte == 0 for byte in begin]
    is_alternating = zeros in ([True, False] * 2, [False, True] * 2)
    return begin.startswith((b"\xff\xfe", b"\xfe\xff")) or is_alternating


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

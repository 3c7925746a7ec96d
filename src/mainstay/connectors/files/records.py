"""CSV and JSON-lines files record by record: where a block of them is not plain.

Records of CSV are told apart as pyarrow does, so that reading them one by one gives the rows that
reading the file gives. A line ends with CR, LF or both. A quote means something only where a field
begins; there it may hold line ends, up to the quote that closes it. One that is never closed makes
one record of everything after it.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import pyarrow as pa

from mainstay.errors import SourceError


class Record(NamedTuple):  # quicker to make than a dataclass, and there is one for each line
    """The bytes of one record, with its line ends, and the number of its first line."""

    line: int
    raw: bytes


_QUOTED = rb'"[^"]*(?:""[^"]*)*"(?!")[^,\r\n]*'
_FIELD = rb"(?:" + _QUOTED + rb'|[^",\r\n][^,\r\n]*)?'
_FIELDS = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*")
"""As many whole fields as there are: it stops before a quote that is not closed."""
_REST_OF_QUOTED = re.compile(rb'[^"]*(?:""[^"]*)*"(?!")[^,\r\n]*')
_MARK = b"\xef\xbb\xbf"
"""What some programs begin a file of UTF-8 with."""


def csv_records(data: bytes, line: int = 1, *, keep_empty: bool = False) -> Iterator[Record]:
    """The records of CSV that begins with this line; empty lines are none unless kept."""
    parts: list[bytes] = []
    begin = line
    for number, text in enumerate(data.splitlines(keepends=True), line):
        if not parts:
            if not keep_empty and not text.strip(b"\r\n"):
                continue
            begin = number
        is_open = _is_open(text, in_quotes=bool(parts))
        parts.append(text)
        if not is_open:
            yield Record(begin, b"".join(parts))
            parts = []
    if parts:
        yield Record(begin, b"".join(parts))


def whole_csv_bytes(data: bytes) -> int:
    """Where the last record ends of which the end is there."""
    at = end = 0
    is_open = False
    for line in data.splitlines(keepends=True):
        at += len(line)
        is_open = _is_open(line, in_quotes=is_open)
        # A CR that is the last byte may be half of a line end.
        if not is_open and (line.endswith(b"\n") or at < len(data)):
            end = at
    return end


def _is_open(line: bytes, *, in_quotes: bool) -> bool:
    """Whether a field that was begun in quotes goes on after the line."""
    if b'"' not in line:
        return in_quotes
    at = 0
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


def json_records(data: bytes, line: int = 1) -> Iterator[Record]:
    """The lines that are not empty, the first of which has this number."""
    for number, raw in enumerate(io.BytesIO(data), line):
        if raw.strip():
            yield Record(number, raw)


def open_text(path: str) -> IO[bytes]:
    """A file of lines, unpacked where its name says that it is packed, and without a mark."""
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
    if begin.startswith(_MARK):
        file.read(len(_MARK))
    return file


def _is_utf_16(begin: bytes) -> bool:
    """By its mark, or because every other byte of plain text is zero."""
    zeros = [byte == 0 for byte in begin]
    is_alternating = zeros in ([True, False] * 2, [False, True] * 2)
    return begin.startswith((b"\xff\xfe", b"\xfe\xff")) or is_alternating


def joined(records: Sequence[Record]) -> bytes:
    return b"".join(r.raw if r.raw.endswith(b"\n") else r.raw + b"\n" for r in records)

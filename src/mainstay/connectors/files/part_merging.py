"""Part files of one format as one file: Parquet by its rows, lines as they are.

Lines are not parsed, because CSV and JSON do not say what their values are. Files that have other
columns than the first (a job's program may have changed) are left for another time.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors.files.open_part import ROW_GROUP_ROWS
from mainstay.connectors.files.part_formats import PartFormat
from mainstay.errors import SinkError
from mainstay.schema.sizes import cut


def merged(paths: Sequence[str], format: PartFormat) -> tuple[bytes, int]:
    """The contents of as many of the files, from the first on, as fit together; and how many."""
    if format.name == "parquet":
        return _merged_parquet(paths, format)
    lines, count = _merged_lines(paths, has_header=format.name == "csv")
    return (gzip.compress(lines) if format.compression == "gzip" else lines), count


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """A committed file that is not whole any more stays so, however often it is read."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk says so, and not the contents
        raise SinkError(
            f"the committed file {path!r} cannot be read to be merged with others: {error}. Put "
            "back what it was, or leave out compact=."
        ) from error


def _merged_parquet(paths: Sequence[str], format: PartFormat) -> tuple[bytes, int]:
    tables: list[pa.Table] = []
    for path in paths:
        with _readable(path), pq.ParquetFile(path) as file:
            table = file.read()
        if tables and not table.schema.equals(tables[0].schema):
            break
        tables.append(table)
    rows = pa.concat_tables(tables)
    buffer = io.BytesIO()
    encoder = format.encoder(buffer, rows.schema)
    for first, after in cut(rows):
        part = rows.slice(first, after - first).combine_chunks()
        for start in range(0, part.num_rows, ROW_GROUP_ROWS):
            encoder.write(part.slice(start, ROW_GROUP_ROWS))
    encoder.close()
    return buffer.getvalue(), len(tables)


def _merged_lines(paths: Sequence[str], *, has_header: bool) -> tuple[bytes, int]:
    header = b""
    pieces: list[bytes] = []
    for path in paths:
        opened = gzip.open if path.endswith(".gz") else open
        with _readable(path), opened(path, "rb") as file:
            content = file.read()
        if has_header:
            first, separator, rest = content.partition(b"\n")
            if pieces and first + separator != header:
                break
            header, content = first + separator, rest
        pieces.append(content)
    return header + b"".join(pieces), len(pieces)

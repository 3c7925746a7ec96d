"""File formats to write: rows of one schema to the bytes of a Parquet, CSV or JSON-lines file.

CSV has a header line; a null is an empty field, and texts are quoted, so that the empty text is
``""``. That and the JSON of ``json_rows`` is what ``Files`` reads, and Spark with ``header=true``.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mainstay.connectors.files.formats import check_types
from mainstay.connectors.formats.json_rows import json_rows
from mainstay.errors import GraphError, SinkError
from mainstay.spelling import did_you_mean

COMPRESSIONS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "csv": ("none", "gzip"),
    "json": ("none", "gzip"),
}
"""What each format may be compressed with; the first is the default."""


class Encoder(Protocol):
    """Turns tables into the bytes of one file, which appear in the buffer it was made with."""

    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


def names_alike(type: pa.DataType) -> list[str]:
    """The first fields of a struct, at any depth, whose names differ in case alone, if any."""
    fields = [type.field(n) for n in range(type.num_fields)]
    if pa.types.is_struct(type):
        by_name: dict[str, list[str]] = {}
        for field in fields:
            by_name.setdefault(field.name.lower(), []).append(field.name)
        if found := next((names for names in by_name.values() if len(names) > 1), None):
            return found
    return next(filter(None, (names_alike(field.type) for field in fields)), [])


@dataclass(frozen=True, slots=True)
class PartFormat:
    """A format and its compression."""

    name: str
    compression: str

    @staticmethod
    def checked(name: str, compression: str | None, sink: str) -> PartFormat:
        if name not in COMPRESSIONS:
            raise GraphError(
                f"{sink}(format={name!r}) must be one of {', '.join(COMPRESSIONS)}."
                f"{did_you_mean(name, COMPRESSIONS)}"
            )
        known = COMPRESSIONS[name]
        if compression is not None and compression not in known:
            raise GraphError(
                f"{sink}(compression={compression!r}) must be one of {', '.join(known)}."
                f"{did_you_mean(compression, known)}"
            )
        return PartFormat(name, compression or known[0])

    @property
    def extension(self) -> str:
        is_packed = self.name != "parquet" and self.compression == "gzip"
        return f".{self.name}.gz" if is_packed else f".{self.name}"

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that could not be read back."""
        check_types(schema, self.name, SinkError, to_write=True)

    def encoder(self, to: io.BytesIO, schema: pa.Schema) -> Encoder:
        if self.name == "parquet":
            return _Parquet(pq.ParquetWriter(to, schema, compression=self.compression))
        self.check(schema)
        return _Text(to, _csv if self.name == "csv" else _json, self.compression == "gzip")


class _Parquet:
    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        self._writer.close()


class _Text:
    """A format whose rows are lines; ``encode`` knows whether they are the first."""

    def __init__(
        self, to: io.BytesIO, encode: Callable[[pa.Table, bool], bytes], is_packed: bool
    ) -> None:
        self._to = to
        self._encode = encode
        self._packer = zlib.compressobj(wbits=31) if is_packed else None
        self._is_first = True

    def write(self, table: pa.Table) -> None:
        lines = self._encode(table, self._is_first)
        self._is_first = False
        self._to.write(self._packer.compress(lines) if self._packer else lines)

    def close(self) -> None:
        if self._packer:
            self._to.write(self._packer.flush())


def _csv(table: pa.Table, is_first: bool) -> bytes:
    stream = pa.BufferOutputStream()
    pa.csv.write_csv(table, stream, pa.csv.WriteOptions(include_header=is_first))
    return stream.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _json(table: pa.Table, is_first: bool) -> bytes:
    return "".join(f"{row}\n" for row in json_rows(table)).encode()

"""Files as a bounded source: Parquet, CSV with a header line, and JSON lines.

::

    Files("./orders/*.parquet")
    Files(["./2024", "./2025"], schema="customer string, amount long", format="csv")

A split is a file, its offset the number of rows that were read. Columns are found by name and
cast to the schema; other columns of a file are left out. Files must not change while a job reads
them: one that has another size than when it was planned is refused, because what was read of it
could not be read again.

In CSV an empty field is null and ``""`` the empty text; in JSON an absent field is null. A
timestamp without a zone is UTC. Names that begin with ``.`` or ``_`` are passed over in
directories, as Spark does.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors.file_formats import EXTENSIONS, READERS, check_types, read_batches
from mainstay.errors import GraphError, SchemaError, SourceError
from mainstay.runtime.connector import Json, Polled, Source, Split, SplitReader
from mainstay.schema import to_schema


class Files(Source):
    """Rows of files, each file read from its beginning to its end by one subtask.

    ``paths`` are files, directories (everything in them) or glob patterns. ``format`` is one of
    "parquet", "csv" and "json", and may be left out where the files' extensions say it. ``schema``
    may be left out where the first file is Parquet.
    """

    may_block = True

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        schema: Any = None,
        format: str | None = None,
        batch_rows: int = 8192,
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not given or not all(isinstance(path, str | os.PathLike) for path in given):
            raise GraphError(f"Files({paths!r}): give a path or a list of paths.")
        if format not in (None, *READERS):
            raise GraphError(
                f"Files(format={format!r}): the formats are {', '.join(sorted(READERS))}."
            )
        if not isinstance(batch_rows, int) or isinstance(batch_rows, bool) or batch_rows < 1:
            raise GraphError(f"Files(batch_rows={batch_rows!r}) must be a number of at least 1.")
        self.paths = [os.fspath(path) for path in given]
        self.format = format
        self.batch_rows = batch_rows
        self.schema = self._schema_of_first() if schema is None else to_schema(schema)
        if format is not None:
            check_types(self.schema, format, GraphError)

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        formats = {path: self._format_of(path, SourceError) for path in self._found(SourceError)}
        for format in sorted(set(formats.values())):
            check_types(self.schema, format, SourceError)
        return [
            Split(path, {"format": format, "size_bytes": os.path.getsize(path)})
            for path, format in formats.items()
            if path not in seen
        ]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        place = _Place(split.id, split.data["format"], split.data["size_bytes"])
        return _FileReader(place, self.schema, self.batch_rows, offset or 0)

    def _found(self, error: type[Exception]) -> list[str]:
        found: set[str] = set()
        for path in self.paths:
            matches = set(_files_of(path))
            if not matches:
                raise error(
                    f"no file matches {path!r} (in {os.getcwd()!r}). Correct the path, or leave "
                    "it out if there may be no such file."
                )
            found |= matches
        return sorted(found)

    def _format_of(self, path: str, error: type[Exception]) -> str:
        if self.format is not None:
            return self.format
        extension = os.path.splitext(path.removesuffix(".gz"))[1].lower()
        if extension not in EXTENSIONS:
            raise error(
                f"the format of file {path!r} cannot be told from its extension {extension!r}. "
                f"Say format= (one of {', '.join(sorted(READERS))}), or use one of the "
                f"extensions {', '.join(EXTENSIONS)}."
            )
        return EXTENSIONS[extension]

    def _schema_of_first(self) -> pa.Schema:
        path = self._found(GraphError)[0]
        format = self._format_of(path, GraphError)
        if format != "parquet":
            raise GraphError(
                f"file {path!r} ({format}) does not say its columns' types. Give Files() a schema, "
                'as in schema="customer string, amount long".'
            )
        try:
            return to_schema(pq.read_schema(path))
        except (pa.ArrowException, OSError, SchemaError) as error:
            raise GraphError(f"no schema can be read from file {path!r} (parquet): {error}") from (
                error
            )


def _files_of(path: str) -> Iterator[str]:
    """The files that one of the given paths stands for."""
    for match in glob(path, recursive=True) if has_magic(path) else [path]:
        if os.path.isfile(match):
            yield match
        for directory, inner, names in os.walk(match):
            inner[:] = [name for name in inner if not name.startswith((".", "_"))]
            yield from (
                os.path.join(directory, name) for name in names if not name.startswith((".", "_"))
            )


# ---------------------------------------------------------------- reading a file


@dataclass(frozen=True, slots=True)
class _Place:
    """A file to be read, as it was when it was planned."""

    path: str
    format: str
    size_bytes: int

    def broken(self, problem: Any) -> SourceError:
        return SourceError(
            f"file {self.path!r} ({self.format}): {problem}. Correct the file, or the schema= and "
            "format= that Files() was given."
        )


class _FileReader(SplitReader):
    """Nothing is opened before the first poll, which runs where waiting is allowed."""

    def __init__(self, place: _Place, schema: pa.Schema, batch_rows: int, offset: int) -> None:
        self._offset = offset
        self._batches = _batches(place, schema, batch_rows, offset)
        self._rest: pa.RecordBatch | None = None

    def poll(self, max_rows: int) -> Polled:
        if self._rest is None:
            self._rest = next(self._batches, None)
        if self._rest is None:
            return Polled(None, self._offset, finished=True)
        taken, rest = self._rest.slice(0, max_rows), self._rest.slice(max_rows)
        self._rest = rest if rest.num_rows else None
        self._offset += taken.num_rows
        return Polled(taken, self._offset)

    def close(self) -> None:
        self._batches.close()


def _batches(
    place: _Place, schema: pa.Schema, batch_rows: int, skip: int
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a file from the given one on, as batches of the schema that are not empty."""
    try:
        size = os.path.getsize(place.path)
        if size != place.size_bytes:
            raise SourceError(
                f"file {place.path!r} had {place.size_bytes} bytes when the job planned it and has "
                f"{size} now. A file must not change while a job reads it: put the old one back, "
                "or start the job afresh in another snapshot directory."
            )
        yield from read_batches(place.path, place.format, schema, batch_rows, skip)
    except (pa.ArrowException, OSError, EOFError, zlib.error, SchemaError) as error:
        raise place.broken(error) from error

"""Files as a source: Parquet, CSV with a header line, and JSON lines.

::

    Files("./orders/*.parquet")
    Files(["./2024", "./2025"], schema="customer string, amount long", format="csv")
    Files("./incoming", schema="customer string, amount long", watch=True)

A split is a file, its offset the number of records that were read. Columns are found by name and
cast to the schema; other columns of a file are left out. Files must not change while a job reads
them: one that has another size or time of change than when it was planned is refused, because what
was read of it could not be read again. A relative path is below the directory in which the source
was made, wherever the workers run.

A job that has finished and is started again reads the files that are new, as one that was stopped
does. A file is known by its path: one that was moved is a new file, one that is gone is nothing.
One that was read and has another size now, or begins or ends with other bytes, is refused.

A record of CSV or JSON that does not fit the schema ends the job with its file and line, or with
``malformed="skip"`` is left out and counted, or with ``malformed="side"`` stays, in the column
``_malformed``.

In CSV an empty field is null and ``""`` the empty text; in JSON an absent field is null. A
timestamp without a zone is UTC. Names that begin with ``.`` or ``_`` are passed over in
directories, as Spark does. Of a directory with Spark's log ``_spark_metadata`` exactly the files
that are listed there are read.

A watched source never ends: it looks for new files about once a second, and takes one when it has
the size that it had the time before. Temporary names are passed over. A file of a Spark log is
whole, and taken at once.

Every file that was taken is remembered by its path in every snapshot, for as long as it is there
and an hour longer. So the cost of a watched directory is that of the files that are in it, not of
all that ever were: have old ones removed. One that comes back under its name within the hour is
not read again; later it is a new file. While nothing at all is found under a path nothing of it is
forgotten, because its disk may just be missing. A listing that takes long is made less often: it
takes a tenth of the time at most.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from glob import escape, has_magic
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors.files.absences import Absences
from mainstay.connectors.files.file_reader import FileReader, Place
from mainstay.connectors.files.formats import EXTENSIONS, READERS, check_types, format_of
from mainstay.connectors.files.found_files import (
    Stamp,
    check_no_merged,
    files_of,
    mark_of,
    stamp_of,
)
from mainstay.connectors.formats.malformed import Malformed
from mainstay.errors import GraphError, SchemaError, SourceError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import Json, Source, Split, SplitReader
from mainstay.schema import to_schema
from mainstay.snapshot.store_urls import refuse_torn
from mainstay.spelling import did_you_mean

_log = logging.getLogger("mainstay")

TEMPORARY = (".tmp", ".part", ".inprogress", "._COPYING_")
"""How names end under which other programs write files that they will rename."""

REPLAN_S = 1.0
LISTING_SHARE = 0.1
"""The part of the time that may go into looking for files."""


@made_with_own_frames
class Files(Source):
    """Rows of files, each file read from its beginning to its end by one subtask.

    ``paths`` are files, directories (everything in them) or glob patterns. ``format`` is one of
    "parquet", "csv" and "json", and may be left out where the files' extensions say it. ``schema``
    may be left out where the first file is Parquet. With ``watch`` there need not be a file yet.
    """

    may_block = True
    reads_at_once = 4
    new_input = "files at paths that were not read before"

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        schema: Any = None,
        format: str | None = None,
        batch_rows: int = 65_536,
        watch: bool = False,
        malformed: str = "fail",
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not given or not all(isinstance(path, str | os.PathLike) for path in given):
            raise GraphError(f"Files({paths!r}): give a path or a list of paths.")
        if format not in (None, *READERS):
            raise GraphError(
                f"Files(format={format!r}): the formats are {', '.join(sorted(READERS))}."
                f"{did_you_mean(format, READERS)}"
            )
        if not isinstance(batch_rows, int) or isinstance(batch_rows, bool) or batch_rows < 1:
            raise GraphError(f"Files(batch_rows={batch_rows!r}) must be a number of at least 1.")
        self.paths = [os.fspath(path) for path in given]
        for path in self.paths:
            refuse_torn(path, GraphError)
        self.directory = os.getcwd()
        """What relative paths are below, also for workers that run elsewhere."""
        self.format = format
        self.batch_rows = self.poll_rows = batch_rows
        self.bounded = not watch
        self._growing: dict[str, Stamp] = {}
        self._absences = Absences(self.paths)
        self._spelled: dict[str, str] | None = None
        self._told_empty: set[str] = set()
        Malformed.check(malformed, "Files")
        self.malformed = malformed
        self.malformed_column = Malformed.column_of(malformed)
        if schema is not None:
            # In the place of the properties below, which look into the first file.
            self.row_schema = self._checked(to_schema(schema))
            self.schema = Malformed.with_column(self.row_schema, malformed)

    @cached_property
    def row_schema(self) -> pa.Schema:
        """The schema of the files, without what tells of malformed records."""
        return self._checked(self._schema_of_first())

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the source's rows; asked for when the source is added to a job."""
        return Malformed.with_column(self.row_schema, self.malformed)

    def _checked(self, schema: pa.Schema) -> pa.Schema:
        if self.format is not None:
            check_types(schema, self.format, GraphError)
        return schema

    def __getstate__(self) -> dict[str, Any]:
        # Only what plans needs to know the files of earlier starts.
        return {**self.__dict__, "_spelled": None}

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        began_at = monotonic()
        found = self._found(SourceError, seen)
        took_s = monotonic() - began_at
        self.replan_s = max(REPLAN_S, took_s / LISTING_SHARE)
        found = self._as_spelled_before(found, seen)
        self._absences.note(found, seen)
        if seen or not self.bounded:
            check_no_merged(path for path in found.keys() - seen if not path.endswith(TEMPORARY))
        stamps = self._stamps(found) if self.bounded else self._settled(found, seen)
        formats = {path: self._format_of(path, SourceError) for path in sorted(stamps)}
        for format in sorted(set(formats.values())):
            check_types(self.row_schema, format, SourceError)
        new_csv = [path for path in formats if formats[path] == "csv" and path not in seen]
        self._tell_empty(path for path in new_csv if not stamps[path].size_bytes)
        return [
            Split(path, self._data(path, format, stamps[path]), self._mark_of(path, stamps[path]))
            for path, format in formats.items()
            if self.bounded or path not in seen
        ]

    def forget(self, seen: frozenset[str]) -> Collection[str]:
        """Files that have been gone for long."""
        return self._absences.long_gone()

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        data = split.data
        # Splits that an earlier version planned have neither a place nor a time.
        path = data.get("path") or self._place_of(split.id)
        stamp = Stamp(data["size_bytes"], data.get("modified_ns"))
        place = Place(path, data["format"], stamp)
        return FileReader(place, self.row_schema, self.batch_rows, offset or 0, self.malformed)

    def covers(self, path: str) -> bool:
        """Whether a file with this absolute path lies where the source looks for files."""
        for given in self.paths:
            fixed = os.path.normpath(os.path.join(self.directory, given))
            while has_magic(fixed):
                fixed = os.path.dirname(fixed)
            if os.path.commonpath([fixed, os.path.normpath(path)]) == fixed:
                return True
        return False

    def _tell_empty(self, paths: Iterable[str]) -> None:
        """Say once which CSV files have not even a header: something may have cut them short."""
        for path in paths:
            if path not in self._told_empty:
                self._told_empty.add(path)
                _log.warning("file %r is empty: it has no header and no rows", path)

    def _data(self, name: str, format: str, stamp: Stamp) -> dict[str, Json]:
        return {
            "format": format,
            "size_bytes": stamp.size_bytes,
            "modified_ns": stamp.modified_ns,
            "path": self._place_of(name),
        }

    def _place_of(self, name: str) -> str:
        """Where a file is. Its split is named as its path was given, which snapshots hold."""
        return os.path.join(self.directory, name)

    def _mark_of(self, name: str, stamp: Stamp) -> str | None:
        """What tells a file that was read to its end from another, without reading all of it."""
        return mark_of(self._place_of(name), stamp.size_bytes) if self.bounded else None

    def _found(self, error: type[Exception], seen: frozenset[str] = frozenset()) -> dict[str, bool]:
        """The files there are, and of each whether it is known to be whole.

        Once files were read they may be removed: there need not be any then. Where their directory
        is gone as well, it is more likely that the path is wrong or a disk is not mounted.
        """
        found: dict[str, bool] = {}
        for path in self.paths:
            matches = dict(files_of(path, self.directory))
            is_wrong = not seen or not os.path.isdir(self._directory_of(path, seen))
            if not matches and self.bounded and is_wrong:
                raise error(
                    f"no file matches {path!r} (in {self.directory!r}). Correct the path; one that "
                    "may match nothing has no place among the paths of a bounded Files(...)."
                    f"{self._how_to_escape(path)}"
                )
            for name in matches:
                _check_is_text(name, error)
            found |= matches
        return found

    def _how_to_escape(self, path: str) -> str:
        """For a path that is there, and was taken for a pattern on account of a sign in it."""
        if not os.path.lexists(os.path.join(self.directory, path)):
            return ""
        return f" It was taken for a pattern: to name the path itself, write {escape(path)!r}."

    def _directory_of(self, path: str, seen: frozenset[str]) -> str:
        """The directory that a path is, or that its files are in."""
        fixed = os.path.normpath(os.path.join(self.directory, path))
        inside = os.path.join(fixed, "")
        if any(self._path_of(name).startswith(inside) for name in seen):
            return fixed
        while has_magic(fixed):
            fixed = os.path.dirname(fixed)
        return fixed if has_magic(path) else os.path.dirname(fixed)

    def _as_spelled_before(self, found: dict[str, bool], seen: frozenset[str]) -> dict[str, bool]:
        """The files by the names under which an earlier start has read them, where one has."""
        if self._spelled is None:
            self._spelled = {self._path_of(name): name for name in seen}
        known = self._spelled

        def before(name: str) -> str:
            return name if name in seen or not known else known.get(self._path_of(name), name)

        return {before(name): is_whole for name, is_whole in found.items()}

    def _path_of(self, name: str) -> str:
        """The same for all ways to spell it."""
        return os.path.normpath(self._place_of(name))

    def _stamps(self, found: dict[str, bool]) -> dict[str, Stamp]:
        """The files as they are now. One that has gone since it was found is left out, unless a
        log says that it belongs to the data."""
        stamps = {}
        for name, is_listed in found.items():
            stamp = stamp_of(self._place_of(name))
            if stamp is not None:
                stamps[name] = stamp
            elif is_listed:
                raise SourceError(
                    f"file {name!r} is listed in Spark's log but is not there. Put it back; a "
                    "directory with such a log can be neither moved nor thinned out."
                )
        return stamps

    def _settled(self, found: dict[str, bool], seen: frozenset[str]) -> dict[str, Stamp]:
        """The new files that are whole, or have not changed since the last time."""
        new = {
            path: is_whole
            for path, is_whole in found.items()
            if path not in seen and not path.endswith(TEMPORARY)
        }
        before, self._growing = self._growing, self._stamps(new)
        return {
            path: stamp
            for path, stamp in self._growing.items()
            if new[path] or before.get(path) == stamp
        }

    def _format_of(self, path: str, error: type[Exception]) -> str:
        if self.format is not None:
            return self.format
        format = format_of(path)
        if format is None:
            extension = os.path.splitext(path.removesuffix(".gz"))[1]
            raise error(
                f"the format of file {path!r} cannot be told from its extension {extension!r}. "
                f"Say format= (one of {', '.join(sorted(READERS))}), or use one of the "
                f"extensions {', '.join(EXTENSIONS)}."
            )
        return format

    def _schema_of_first(self) -> pa.Schema:
        path = min(self._found(GraphError), default=None)
        if path is None:
            raise GraphError(
                f"Files({', '.join(map(repr, self.paths))}, watch=True): there is no file yet to "
                'take the schema from. Give one, as in schema="customer string, amount long".'
            )
        format = self._format_of(path, GraphError)
        if format != "parquet":
            raise GraphError(
                f"file {path!r} ({format}) does not say its columns' types. Give Files() a schema, "
                'as in schema="customer string, amount long".'
            )
        try:
            return to_schema(pq.read_schema(self._place_of(path)))
        except (pa.ArrowException, OSError, SchemaError) as error:
            raise GraphError(f"no schema can be read from file {path!r} (parquet): {error}") from (
                error
            )


def _check_is_text(name: str, error: type[Exception]) -> None:
    """Offsets and libraries take names as text; a disk takes any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise error(
            f"the name of the file {name!r} is no UTF-8 text. Rename the file or the folder."
        ) from None

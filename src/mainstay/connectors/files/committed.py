"""Reading what a file sink has committed: whole epochs, each once, whatever happens meanwhile."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors.files.compaction import place_of
from mainstay.connectors.files.formats import format_of, read_batches
from mainstay.connectors.files.hive_partitions import values_of, with_values
from mainstay.connectors.files.listing import FOLDER, FileListing, has_listing
from mainstay.connectors.files.output_directory import directory_of, is_claimed
from mainstay.connectors.files.spark_log import FOLDER as SPARK_FOLDER
from mainstay.connectors.files.spark_log import SparkFileLog, has_log
from mainstay.errors import SchemaError, SourceError
from mainstay.schema import to_schema
from mainstay.snapshot.object_storage import open_storage

_FolderTable = tuple[str, pa.Table]
"""The rows of a file, and the folder below the directory it is of: that says some columns."""


def read_committed(path: str | os.PathLike[str], schema: Any = None) -> pa.Table:
    """The rows of all committed epochs in a directory, in the order of their commits.

    A ``schema`` is needed where the files are CSV or JSON, which do not say their columns' types.
    Columns that the sink was partitioned by come last, without a schema as int, long, date or
    string.

    A job may write and merge files meanwhile, however fast: the rows are those of one moment.
    """
    directory = directory_of(path, SourceError)
    wanted = None if schema is None else to_schema(schema)
    tables = _tables(_listing_of(directory), wanted)
    if not tables:
        return pa.table({}) if wanted is None else wanted.empty_table()
    table = _together(tables, wanted, directory)
    if wanted is None:
        return table
    # Each has its type already. A cast would take nulls below an absent struct for its own.
    return pa.table([table.column(name) for name in wanted.names], schema=wanted)


def _together(tables: list[_FolderTable], wanted: pa.Schema | None, directory: str) -> pa.Table:
    try:
        return pa.concat_tables(with_values(tables, wanted), promote_options="default")
    except pa.ArrowException as error:
        raise SourceError(
            f"the files in {directory!r}, with the columns that their folders name, have no one "
            f"schema: {error}. Give read_committed() a schema that all of them fit."
        ) from error


@dataclass(frozen=True, slots=True)
class _Listing:
    """The committed files of a directory by their paths below it, by either listing."""

    directory: str
    paths: Callable[[], Sequence[str]]
    place_of: Callable[[str], str | None]
    """Where a file is just now; None if it is gone."""


def _listing_of(directory: str) -> _Listing:
    if has_log(directory):
        log = SparkFileLog(open_storage(directory), SourceError)
        return _Listing(
            directory,
            lambda: [os.path.relpath(file.path, directory) for file in log.files()],
            lambda path: _if_there(os.path.join(directory, path)),
        )
    # A sink that owns the directory may have committed nothing yet.
    if not has_listing(directory) and not is_claimed(directory):
        raise SourceError(
            f"the directory {directory!r} has neither {SPARK_FOLDER!r} nor {FOLDER!r}: no "
            "ParquetSink, FileSink or Spark stream has written to it. Correct the path."
        )
    listing = FileListing(open_storage(directory), SourceError)
    return _Listing(
        directory,
        lambda: [file.path for file in listing.read().files],
        lambda path: place_of(directory, path),
    )


def _if_there(path: str) -> str | None:
    return path if os.path.isfile(path) else None


def _tables(listing: _Listing, wanted: pa.Schema | None) -> list[_FolderTable]:
    """The files of one listing.

    A file that has gone by the time it is read was merged, and is no longer listed: the listing is
    read again. What has been read already is kept, for files do not change. What is left is what
    was written meanwhile, which took both reading and writing: so the reader catches up.
    """
    tables: dict[str, pa.Table] = {}
    paths = listing.paths()
    while (gone := _read_others(listing, paths, wanted, tables)) is not None:
        paths = listing.paths()
        if gone in paths:
            raise SourceError(
                f"the file {gone!r} is listed in {listing.directory!r} but is not there. Put it "
                "back; nobody may remove files of a sink one by one."
            )
    return [(os.path.dirname(path), tables[path]) for path in paths]


def _read_others(
    listing: _Listing,
    paths: Sequence[str],
    wanted: pa.Schema | None,
    tables: dict[str, pa.Table],
) -> str | None:
    """Have ``tables`` hold these files and no others; a file that is gone ends it."""
    for path in tables.keys() - set(paths):
        del tables[path]
    for path in paths:
        if path not in tables:
            table = _table_of(listing, path, wanted)
            if table is None:
                return path
            tables[path] = table
    return None


def _table_of(listing: _Listing, path: str, wanted: pa.Schema | None) -> pa.Table | None:
    """A listed file, wherever it is just now; None if it is gone."""
    schema = _without(wanted, os.path.dirname(path))
    while (place := listing.place_of(path)) is not None:
        try:
            return _table(place, schema)
        except FileNotFoundError:
            continue  # it was shown, or hidden, since: it moves twice at most
        except (pa.ArrowException, OSError, EOFError, zlib.error, SchemaError) as error:
            raise SourceError(
                f"the committed file {place!r} cannot be read: {error}. Correct the schema; a file "
                "that is damaged has to be put back from a copy."
            ) from error
    return None


def _table(path: str, schema: pa.Schema | None) -> pa.Table:
    format = format_of(path)
    if format == "parquet" and schema is None:
        with pq.ParquetFile(path) as file:
            return file.read()
    if format is None or schema is None:
        raise SourceError(
            f"file {path!r} does not say its columns' types. Give read_committed() a schema, as "
            'in schema="customer string, amount long".'
        )
    return pa.Table.from_batches(read_batches(path, format, schema), schema)


def _without(schema: pa.Schema | None, folder: str) -> pa.Schema | None:
    """The columns that are in the files of a folder."""
    if schema is None:
        return None
    named = values_of(folder)
    return pa.schema([field for field in schema if field.name not in named])

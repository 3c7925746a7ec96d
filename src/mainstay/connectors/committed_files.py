"""Reading what a file sink has committed: whole epochs, each once, whatever happens meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.connectors.file_compaction import place_of
from mainstay.connectors.file_formats import format_of, read_batches
from mainstay.connectors.file_listing import FOLDER, FileListing, has_listing
from mainstay.connectors.hive_partitions import values_of, with_values
from mainstay.connectors.output_directory import directory_of
from mainstay.connectors.spark_file_log import FOLDER as SPARK_FOLDER
from mainstay.connectors.spark_file_log import SparkFileLog, has_log
from mainstay.errors import SourceError
from mainstay.schema import to_schema
from mainstay.snapshot.object_storage import open_storage

_ATTEMPTS = 3
_BATCH_ROWS = 1 << 16


def read_committed(path: str | os.PathLike[str], schema: Any = None) -> pa.Table:
    """The rows of all committed epochs in a directory, in the order of their commits.

    A ``schema`` is needed where the files are CSV or JSON, which do not say their columns' types.
    Columns that the sink was partitioned by come last, without a schema as int, long, date or
    string.
    """
    directory = directory_of(path, SourceError)
    for _ in range(_ATTEMPTS - 1):
        try:
            return _read(directory, schema)
        except FileNotFoundError:
            continue  # files were merged meanwhile: the listing knows where the rows are now
    return _read(directory, schema)


def committed_paths(directory: str) -> Iterator[tuple[str, str]]:
    """Each committed file, where it is just now, and the folder below the directory it is of."""
    if has_log(directory):
        for file in SparkFileLog(open_storage(directory), SourceError).files():
            yield file.path, os.path.relpath(os.path.dirname(file.path), directory)
        return
    if not has_listing(directory):
        raise SourceError(
            f"the directory {directory!r} has neither {SPARK_FOLDER!r} nor {FOLDER!r}: no "
            "ParquetSink, FileSink or Spark stream has written to it. Correct the path."
        )
    for listed in FileListing(open_storage(directory), SourceError).read().files:
        place = place_of(directory, listed.path)
        if place is None:
            raise FileNotFoundError(
                f"the file {listed.path!r} is listed in {directory!r} but is not there. Put it "
                "back; nobody may remove files of a FileSink one by one."
            )
        yield place, os.path.dirname(listed.path)


def _read(directory: str, schema: Any) -> pa.Table:
    wanted = None if schema is None else to_schema(schema)
    tables = [
        (folder, _table(place, _without(wanted, folder)))
        for place, folder in committed_paths(directory)
    ]
    if not tables:
        return pa.table({}) if wanted is None else wanted.empty_table()
    table = pa.concat_tables(with_values(tables, wanted), promote_options="default")
    return table if wanted is None else table.select(wanted.names).cast(wanted)


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
    return pa.Table.from_batches(read_batches(path, format, schema, _BATCH_ROWS, 0), schema)


def _without(schema: pa.Schema | None, folder: str) -> pa.Schema | None:
    """The columns that are in the files of a folder."""
    if schema is None:
        return None
    named = values_of(folder)
    return pa.schema([field for field in schema if field.name not in named])

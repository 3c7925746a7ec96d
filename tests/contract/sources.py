"""The sources that the contract is run against, each with what it has to give.

A further source is a further function with ``@example``. It gets a folder of its own and gives an
``Example``, whose source can be made as often as a test likes: as after a restart of the program.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from mainstay.connectors import Files, Generate, Json, Rows, Sequence, Source
from mainstay.connectors.ingest.files import write_files
from mainstay.connectors.ingest.laned_source import LANES, LanedIngestSource
from mainstay.connectors.ingest.log import IngestLog
from mainstay.connectors.ingest.source import IngestSource
from mainstay.connectors.kafka import KafkaSource
from mainstay.connectors.postgres import PostgresSource
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.object_storage import open_storage
from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer, asked

DDL = "id long, name string"
SCHEMA = to_schema(DDL)
ROWS = 24
_topics = count(1)

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Example:
    """A source, and the rows of all of its splits together."""

    make: Callable[[], Source]
    rows: list[Row]
    per_split: int | None = None
    """How many rows are read of a split that has no end."""


Build = Callable[[Path], Example]
EXAMPLES: dict[str, Build] = {}


def example(build: Build) -> Build:
    EXAMPLES[build.__name__] = build
    return build


def numbered(first: int, after: int) -> list[Row]:
    return [(n, None if n % 5 == 3 else f"n{n}") for n in range(first, after)]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    return rows_to_batch(rows, SCHEMA, "an example")


# ---------------------------------------------------------------- rows that are made


@example
def rows(_: Path) -> Example:
    given = numbered(0, ROWS)
    return Example(lambda: Rows(DDL, given, splits=3, batch_rows=4), given)


@example
def no_rows(_: Path) -> Example:
    return Example(lambda: Rows(DDL, []), [])


@example
def sequence(_: Path) -> Example:
    return Example(
        lambda: Sequence(3, 3 + ROWS, splits=3, batch_rows=5), [(n,) for n in range(3, 3 + ROWS)]
    )


@example
def sequence_without_end(_: Path) -> Example:
    return Example(lambda: Sequence(splits=2), [(n,) for n in range(18)], per_split=9)


@example
def sequence_by_the_clock(_: Path) -> Example:
    return Example(
        lambda: Sequence(splits=2, rows_per_second=20_000),
        [(n,) for n in range(18)],
        per_split=9,
    )


@example
def generate(_: Path) -> Example:
    def generated(first: int, count: int) -> pa.RecordBatch:
        return batch_of(numbered(first, first + count))

    return Example(
        lambda: Generate(DDL, generated, end=ROWS, splits=2, batch_rows=4), numbered(0, ROWS)
    )


# ---------------------------------------------------------------- files


def files(folder: Path, write: Callable[[pa.Table, Path], object], extension: str) -> str:
    """Three files, one of them without rows."""
    for number, (first, after) in enumerate([(0, 11), (11, 11), (11, ROWS)]):
        table = pa.Table.from_batches([batch_of(numbered(first, after))])
        write(table, folder / f"{number}.{extension}")
    return str(folder / f"*.{extension}")


def write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@example
def csv_files(folder: Path) -> Example:
    path = files(folder, pc.write_csv, "csv")
    return Example(lambda: Files(path, schema=DDL, batch_rows=4), numbered(0, ROWS))


@example
def json_files(folder: Path) -> Example:
    path = files(folder, write_json, "jsonl")
    return Example(lambda: Files(path, schema=DDL, batch_rows=4), numbered(0, ROWS))


@example
def compressed_json_files(folder: Path) -> Example:
    path = files(folder, write_json, "jsonl")
    for plain in folder.glob("*.jsonl"):
        with gzip.open(f"{plain}.gz", "wb") as file:
            file.write(plain.read_bytes())
        plain.unlink()
    return Example(lambda: Files(f"{path}.gz", schema=DDL, batch_rows=4), numbered(0, ROWS))


@example
def json_files_with_bad_lines_left_out(folder: Path) -> Example:
    lines = [json.dumps({"id": n, "name": name}) for n, name in numbered(0, ROWS)]
    for at in (17, 9, 9, 0):
        lines.insert(at, "{")
    (folder / "a.jsonl").write_text("\n".join([*lines, "]", ""]))
    path = str(folder)
    return Example(
        lambda: Files(path, schema=DDL, batch_rows=4, malformed="skip"), numbered(0, ROWS)
    )


@example
def parquet_files(folder: Path) -> Example:
    def write(table: pa.Table, path: Path) -> None:
        pq.write_table(table, path, row_group_size=5)

    path = files(folder, write, "parquet")
    return Example(lambda: Files(path, schema=DDL, batch_rows=4), numbered(0, ROWS))


@example
def watched_files(folder: Path) -> Example:
    path = files(folder, write_json, "jsonl")
    return Example(lambda: Files(path, schema=DDL, batch_rows=4, watch=True), numbered(0, ROWS))


# ---------------------------------------------------------------- the ingest log


def ingest_log(folder: Path) -> tuple[str, IngestLog]:
    """Two batches, the first of two files."""
    location = str(folder)
    storage = open_storage(location)
    log = IngestLog(storage, "numbers")
    for batch, bounds in enumerate([(0, 5, 11), (11, ROWS)]):
        written = []
        for first, after in pairwise(bounds):
            rows = numbered(first, after)
            batches = [batch_of(rows[at : at + 4]) for at in range(0, len(rows), 4)]
            name = f"{first}-{{}}".format
            written += write_files(
                storage, batches, SCHEMA, lambda n, b=batch, f=name: log.data_path(b, f(n))
            )
        log.commit(batch, "query", written)
    return location, log


@example
def ingested_stream(folder: Path) -> Example:
    location, _ = ingest_log(folder)
    return Example(
        lambda: IngestSource(location, "numbers", SCHEMA, bounded=False), numbered(0, ROWS)
    )


@example
def ingested_stream_in_lanes(folder: Path) -> Example:
    """As many files as lanes, so that each has as many rows."""
    storage = open_storage(str(folder))
    log = IngestLog(storage, "numbers")
    share = ROWS // LANES
    files = []
    for first in range(0, ROWS, share):
        rows = [batch_of(numbered(first, first + share))]
        files += write_files(storage, rows, SCHEMA, lambda _, f=first: log.data_path(0, str(f)))
    log.commit(0, "query", files)
    return Example(
        lambda: LanedIngestSource(str(folder), "numbers", SCHEMA), numbered(0, ROWS), share
    )


@example
def ingested_table(folder: Path) -> Example:
    location, log = ingest_log(folder)
    log.seal()
    return Example(
        lambda: IngestSource(location, "numbers", SCHEMA, bounded=True), numbered(0, ROWS)
    )


# ---------------------------------------------------------------- data sources of PySpark


def feed(name: str, folder: Path, **options: Any) -> Any:
    feeds = pytest.importorskip("tests.spark.feeds", reason="pyspark is not installed")
    settings = {"count": ROWS, "limit": 9, "folder": folder, **options}
    return getattr(feeds, name)({key: str(value) for key, value in settings.items()})


def fed(name: str, folder: Path, **options: Any) -> Example:
    """A data source without a JVM: only its own methods are called."""
    feed(name, folder)
    from mainstay.spark.sources.source import pyspark_source

    return Example(
        lambda: pyspark_source(feed(name, folder, **options), deterministic=True, every=0.001),
        [(n, n % 97) for n in range(ROWS)],
    )


@example
def pyspark_batch_of_rows(folder: Path) -> Example:
    return fed("Table", folder)


@example
def pyspark_batch_of_record_batches(folder: Path) -> Example:
    return fed("Table", folder, **{"as": "batches"})


@example
def pyspark_stream(folder: Path) -> Example:
    return fed("Feed", folder)


@example
def pyspark_simple_stream(folder: Path) -> Example:
    return fed("Queue", folder)


# ---------------------------------------------------------------- services


def kafka(broker: KafkaBroker, **options: Any) -> Example:
    """Two partitions, with half of the records each."""
    topic = broker.create(f"contract{next(_topics)}", 2)
    for n, name in numbered(0, ROWS):
        value = json.dumps({"id": n, "name": name}).encode()
        broker.send(topic, [value], partition=2 * n // ROWS)
    return Example(
        lambda: KafkaSource(broker.servers, topic, value=Json(DDL), **options), numbered(0, ROWS)
    )


def postgres(server: PostgresServer, **options: Any) -> Example:
    dsn = server.schema()
    asked(dsn, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    for n, name in numbered(0, ROWS):
        asked(dsn, f"INSERT INTO t VALUES ({n}, {'NULL' if name is None else repr(name)})")
    settings = {"schema": DDL, "column": "id", "lag": 0, "batch_rows": 8, **options}
    return Example(lambda: PostgresSource(dsn, "t", **settings), numbered(0, ROWS))


SERVICES: dict[str, tuple[str, Callable[[Any], Example]]] = {
    "kafka_topic_up_to_now": ("broker", lambda broker: kafka(broker, until="latest")),
    "kafka_topic": ("broker", lambda broker: replace(kafka(broker), per_split=ROWS // 2)),
    "postgres_table": ("server", lambda server: postgres(server, bounded=True, splits=3)),
    "postgres_table_without_end": (
        "server",
        lambda server: replace(postgres(server, poll=0.01), per_split=ROWS),
    ),
}
"""By the fixture that each needs."""

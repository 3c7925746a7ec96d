"""Rows a second into and out of PostgreSQL, beside the bare client in the same run.

``python -m benchmarks.connectors.postgres`` starts a server of its own and writes
``benchmarks/results/connectors-postgres.md``. The bare client sends the same rows by ``COPY`` in
one transaction (for upserts: merges each batch), and reads them by ``COPY`` into Arrow.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv

from benchmarks.connectors.files import BATCH, SCHEMA, Counting, Given, job, orders
from benchmarks.report import Table, add_beside, write_report
from mainstay.connectors.postgres import PostgresSink, PostgresSource, PostgresUpsertSink
from mainstay.connectors.postgres.columns import to_csv
from tests.services.postgres import PostgresServer

ROWS = 200_000
REPEATS = 3
RESULT = Path(__file__).parents[1] / "results" / "connectors-postgres.md"
COLUMNS = "id bigint, customer text, amount float8, at timestamptz"
MERGE = (
    "INSERT INTO t SELECT DISTINCT ON (id) * FROM s ORDER BY id ON CONFLICT (id) DO UPDATE "
    "SET customer = excluded.customer, amount = excluded.amount, at = excluded.at"
)


def pieces(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch.slice(at, BATCH) for at in range(0, batch.num_rows, BATCH)]


def bare_append(dsn: str, batch: pa.RecordBatch) -> float:
    with psycopg.connect(dsn, autocommit=True) as client:
        client.execute(f"CREATE TABLE t ({COLUMNS})")
        began = time.perf_counter()
        copying = "COPY t FROM STDIN (FORMAT csv)"
        with client.transaction(), client.cursor() as cursor, cursor.copy(copying) as copy:
            for piece in pieces(batch):
                copy.write(to_csv(piece))
        return time.perf_counter() - began


def bare_upsert(dsn: str, batch: pa.RecordBatch) -> float:
    with psycopg.connect(dsn, autocommit=True) as client:
        client.execute(f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))")
        client.execute(f"CREATE TEMP TABLE s ({COLUMNS}) ON COMMIT DELETE ROWS")
        began = time.perf_counter()
        for piece in pieces(batch):
            with client.transaction(), client.cursor() as cursor:
                with cursor.copy("COPY s FROM STDIN (FORMAT csv)") as copy:
                    copy.write(to_csv(piece))
                cursor.execute(MERGE)
        return time.perf_counter() - began


def bare_read(dsn: str) -> float:
    began = time.perf_counter()
    copying = "COPY (SELECT * FROM t ORDER BY id) TO STDOUT (FORMAT csv)"
    with psycopg.connect(dsn) as client, client.cursor() as cursor, cursor.copy(copying) as copy:
        data = b"".join(copy)
    options = pyarrow.csv.ReadOptions(column_names=SCHEMA.names, use_threads=False)
    types = pyarrow.csv.ConvertOptions(column_types={field.name: field.type for field in SCHEMA})
    pyarrow.csv.read_csv(io.BytesIO(data), options, convert_options=types)
    return time.perf_counter() - began


def measure(rows: int = ROWS, repeats: int = REPEATS) -> list[Table]:
    batch, folder = orders(rows), Path(tempfile.mkdtemp())
    server = PostgresServer()
    try:
        server.start()
        return [_table(server, batch, folder, repeats)]
    finally:
        server.close()
        shutil.rmtree(folder)


def _table(server: PostgresServer, batch: pa.RecordBatch, folder: Path, repeats: int) -> Table:
    table = Table("PostgreSQL", ["", "rows/s", "bare psycopg rows/s", "ratio"])
    numbers = iter(range(1_000))

    def place() -> Path:
        return folder / str(next(numbers))

    def appended(dsn: str) -> float:
        return job(Given(batch), PostgresSink(dsn, "t", create=True), place())

    def upserted(dsn: str) -> float:
        return job(Given(batch), PostgresUpsertSink(dsn, "t", key="id", create=True), place())

    def read(dsn: str) -> float:
        source = PostgresSource(dsn, "t", schema=SCHEMA, column="id", bounded=True, lag=0)
        return job(source, Counting(), place())

    _add(table, "PostgresSink", batch, repeats, server.schema, appended, bare_append)
    _add(table, "PostgresUpsertSink", batch, repeats, server.schema, upserted, bare_upsert)
    filled = server.schema()
    bare_upsert(filled, batch)
    _add(
        table, "PostgresSource", batch, repeats, lambda: filled, read, lambda dsn, _: bare_read(dsn)
    )
    return table


def _add(
    table: Table,
    name: str,
    batch: pa.RecordBatch,
    repeats: int,
    place: Callable[[], str],
    ours: Callable[[str], float],
    bare: Callable[[str, Any], float],
) -> None:
    times = [(ours(place()), bare(place(), batch)) for _ in range(repeats)]
    mine, theirs = zip(*times, strict=True)
    add_beside(table, name, batch.num_rows, mine, theirs)


def main() -> None:
    note = (
        f"{ROWS:,} rows of four columns, one subtask, an epoch a second, the median of {REPEATS}; "
        "the server runs on the same machine, with fsync off. A job's time includes starting it "
        "and its last epoch. The bare client encodes the rows in the same way."
    )
    write_report(RESULT, "PostgreSQL", note, measure())


if __name__ == "__main__":
    main()

"""Names of tables and columns are names, whatever is in them, and never SQL."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest

from mainstay.connectors import Order, SinkContext
from mainstay.connectors.postgres import PostgresSink, PostgresSource, PostgresUpsertSink
from mainstay.schema import rows_to_batch
from tests.connectors.postgres.test_source import POLL_S, read_on
from tests.services.postgres import asked
from tests.sinks import prepare, recovery, write

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

NAMES = [
    'a"b',
    "a'b",
    "a%b",
    "a%sb",
    "%(a)s",
    "a{}b",
    "{0}",
    "a\\b",
    'x"; DROP TABLE victim; --',
    "ü?$1",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_a_name_with_anything_in_it_is_written_and_read(dsn: str, name: str, kind: str) -> None:
    asked(dsn, "CREATE TABLE victim (id int)")
    quoted = '"' + name.replace('"', '""') + '"'
    asked(dsn, f"DROP SCHEMA IF EXISTS {quoted} CASCADE")
    asked(dsn, f"CREATE SCHEMA {quoted}")
    table = (name, name)
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False), pa.field("v", pa.string())])
    batch = rows_to_batch([(1, "x'; DROP TABLE victim; --"), (2, "%s")], schema, "a test")
    if kind == "append":
        sink = PostgresSink(dsn, table, create=True)
        sink.recover(recovery(1))
        writer = sink.open(SinkContext("out", 0, 1, "job"))
        write(writer, batch)
        handle = prepare(writer, 1) or b""
        sink.commit([handle])
        sink.commit([handle])
        asked(dsn, f"CREATE UNIQUE INDEX ON {quoted}.{quoted} ({quoted})")
    else:
        upserts = PostgresUpsertSink(dsn, table, key=name, create=True)
        upserts.recover(recovery(1))
        with closing(upserts.connect(SinkContext("out", 0, 1, "job"))) as upserter:
            upserter.upsert(batch, Order(1, 0, 0))
    source = PostgresSource(
        dsn, table, schema=schema, column=name, tie=name, lag=0, poll=POLL_S, splits=2
    )
    rows = []
    for split in source.plan(frozenset()):
        with closing(source.read(split, None)) as reader:
            rows += read_on(reader, 1)[0]
    assert rows == [(1, "x'; DROP TABLE victim; --"), (2, "%s")]
    assert asked(dsn, "SELECT count(*) FROM victim") == [(0,)]

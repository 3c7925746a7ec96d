"""Whole jobs, one for each connector, with every listed value of every type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import (
    Console,
    DeltaSink,
    Files,
    FileSink,
    Memory,
    ParquetSink,
    Rows,
    Sink,
    Source,
    Webhook,
    read_committed,
)
from mainstay.connectors.ingest.files import read_file, write_files
from mainstay.connectors.kafka import ArrowIpc, Json, KafkaSink, KafkaSource
from mainstay.connectors.postgres import PostgresSink, PostgresSource
from mainstay.snapshot.object_storage import open_storage
from tests.roundtrips import kinds, test_delta, test_postgres
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import arrow_rows, rows_of
from tests.roundtrips.spellings import from_json
from tests.services.kafka import KafkaBroker
from tests.services.web import Service

TABLE = test_postgres.numbered(
    kinds.wide([*kinds.catalogue(), kinds.one_column(pa.timestamp("us"), None)])
)
EXPECTED = rows_of(TABLE.rows, TABLE.schema)
WAIT_S = 120.0


def run(source: Source, sink: Sink, folder: Path, name: str = "trip") -> None:
    env = ms.Environment(
        spark="embedded", parallelism=1, snapshots=ms.Snapshots(folder / f"snapshots-{name}")
    )
    env.source(source, uid="in").sink(sink, uid="out")
    assert env.start(name).wait(WAIT_S) == "finished"


def rows_source(table: Table = TABLE) -> Rows:
    return Rows(table.schema, table.rows)


def by_number(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row[0][1])


def kept(memory: Memory, table: Table = TABLE) -> list[Any]:
    return by_number(rows_of(memory.rows(), table.schema))


def test_a_job_keeps_every_value_in_memory(tmp_path: Path) -> None:
    out = Memory()
    run(rows_source(), out, tmp_path)
    assert kept(out) == EXPECTED


@pytest.mark.parametrize(
    "make",
    [
        ParquetSink,
        lambda path: FileSink(path, format="json", compression="gzip"),
        lambda path: FileSink(path, format="parquet", compression="snappy"),
    ],
)
def test_a_job_writes_files_that_another_reads(
    make: Callable[[Path], Sink], tmp_path: Path
) -> None:
    run(rows_source(), make(tmp_path / "out"), tmp_path, "write")
    assert arrow_rows(read_committed(tmp_path / "out", TABLE.schema), TABLE.schema) == EXPECTED
    out = Memory()
    run(Files(tmp_path / "out", schema=TABLE.schema), out, tmp_path, "read")
    assert kept(out) == EXPECTED


def test_a_job_writes_a_delta_table(tmp_path: Path) -> None:
    run(rows_source(), DeltaSink(tmp_path / "out"), tmp_path)
    found = test_delta.seen(str(tmp_path / "out"))
    assert by_number(arrow_rows(found, TABLE.schema)) == EXPECTED


def test_a_job_posts_every_value(tmp_path: Path) -> None:
    service = Service()
    try:
        run(rows_source(), Webhook(service.url), tmp_path)
        rows = (
            [from_json(row.get(f.name), f.type) for f in TABLE.schema] for row in service.rows()
        )
        assert by_number(rows_of(rows, TABLE.schema)) == EXPECTED
    finally:
        service.close()


def test_a_value_takes_one_line_of_the_console_and_no_control_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = test_postgres.numbered(kinds.one_column(pa.string(), *kinds.TEXTS))
    run(rows_source(texts), Console(limit=1000), tmp_path)
    shown = capsys.readouterr().out
    lines = shown[shown.index("out, epoch") :].splitlines()
    numbers = [line.split("│")[0].strip() for line in lines if re.match(r"  \d+ ", line)]
    assert numbers == [str(n) for n in range(len(kinds.TEXTS))]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)


def test_the_ingest_log_keeps_every_value(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    files = write_files(storage, [TABLE.batch], TABLE.schema, lambda n: f"{n}.arrow")
    batches = [batch for file in files for batch in read_file(storage, file, 0)]
    assert arrow_rows(pa.Table.from_batches(batches), TABLE.schema) == EXPECTED


@pytest.mark.services
@pytest.mark.xdist_group("postgres")
def test_jobs_write_a_table_of_postgres_and_read_it(dsn: str, tmp_path: Path) -> None:
    table = test_postgres.numbered(
        kinds.wide([test_postgres.held(table) for table in kinds.catalogue()])
    )
    expected = rows_of(table.rows, table.schema)
    name = test_postgres.named()
    run(rows_source(table), PostgresSink(dsn, (name,), create=True), tmp_path, f"w{name}")
    assert test_postgres.seen(dsn, name, table.schema) == expected
    test_postgres.ordered(dsn, name)
    out = Memory()
    source = PostgresSource(
        dsn, (name,), schema=table.schema, column="n ", bounded=True, lag=0, splits=3
    )
    run(source, out, tmp_path, f"r{name}")
    assert kept(out, table) == expected


@pytest.mark.services
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("format", [Json, ArrowIpc])
def test_jobs_write_a_topic_and_read_it(
    broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path, format: Any
) -> None:
    name = topic()
    key = "n " if format is Json else None
    run(rows_source(), KafkaSink(broker.servers, name, value=format(), key=key), tmp_path, "write")
    messages = broker.committed(name)
    if format is Json:
        assert [each.key() for each in messages] == [str(n).encode() for n in range(len(messages))]
        objects = [json.loads(each.value()) for each in messages]
        rows = ([from_json(o.get(f.name), f.type) for f in TABLE.schema] for o in objects)
        assert rows_of(rows, TABLE.schema) == EXPECTED
    out = Memory()
    source = KafkaSource(broker.servers, name, value=format(TABLE.schema), until="latest")
    run(source, out, tmp_path, "read")
    assert kept(out) == EXPECTED

"""Whether the tables of a state grow while their rows are changed again and again.

Every key has a value; then keys are changed at random, all of them as often, as quickly as it goes.
The server cleans up by itself, with its defaults. What counts is how often each row was changed: an
hour over many keys and some minutes over few come to the same.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.external.database import (
    PROTOCOLS,
    SCHEMA,
    asked,
    backend_named,
    emptied,
    running_server,
)
from benchmarks.external.hits import HitJob
from benchmarks.report import Size, Table, count
from tests.services.postgres import PostgresServer

KEYS = 100_000
EPOCH_ROWS = 10_000
SECONDS = 540
LOOKS = 6
"""How often the tables are looked at, evenly."""
LAP_ROWS = 20_000_000

_FIGURES = f"""
SELECT sum(pg_table_size(relid)), sum(pg_indexes_size(relid)), sum(n_dead_tup),
    sum(n_tup_upd), sum(n_tup_hot_upd), sum(autovacuum_count)
FROM pg_stat_user_tables WHERE schemaname = '{SCHEMA}' AND relname LIKE 'totals%'
"""


def uniform_rows(keys: int, rows: int) -> pa.RecordBatch:
    """Every key once; then keys at random."""
    chance = np.random.default_rng(7)
    order = np.concatenate([np.arange(keys), chance.integers(0, keys, rows)])
    amounts = np.ones(len(order), np.int64)
    return pa.record_batch({"key": pa.array(order, pa.int64()), "amount": pa.array(amounts)})


def measure(size: Size) -> Iterator[Table]:
    table = Table(
        "Tables after many updates",
        [
            "state",
            "minutes",
            "changes of a row",
            "table MiB",
            "index MiB",
            "of the start",
            "dead rows",
            "HOT",
            "autovacuums",
        ],
        f"{count(size.of(KEYS))} keys with a ValueState of long, changed at random, an epoch every "
        f"{count(size.of(EPOCH_ROWS))} rows; autovacuum with its defaults. *changes of a row*: on "
        "average, as the server counts them. *of the start*: table and index, beside those when "
        "every key had its first value. *HOT*: the part of the updates that touched no index.",
    )
    with running_server() as server:
        for protocol in PROTOCOLS:
            _grow(table, server, protocol, size)
    yield table


def _grow(table: Table, server: PostgresServer, protocol: str, size: Size) -> None:
    emptied(server)
    keys, epoch_rows = size.of(KEYS), size.of(EPOCH_ROWS)
    batch = uniform_rows(keys, size.of(LAP_ROWS))
    with tempfile.TemporaryDirectory() as directory:
        job = HitJob(backend_named(protocol, server), batch, directory)
        try:
            job.run(keys, epoch_rows)
            first, began = _figures(server), time.monotonic()
            _add(table, protocol, 0.0, keys, first, first)
            for number in range(1, LOOKS + 1):
                _run_until(job, began + SECONDS / size.divisor * number / LOOKS, epoch_rows)
                minutes = (time.monotonic() - began) / 60
                _add(table, protocol, minutes, keys, _figures(server), first)
                print(table.rows[-1], flush=True)
        finally:
            job.worker.close()


def _run_until(job: HitJob, end: float, epoch_rows: int) -> None:
    while time.monotonic() < end and job.source.allowed + epoch_rows <= job.source.batch.num_rows:
        job.run(epoch_rows, epoch_rows)


def _figures(server: PostgresServer) -> list[int]:
    (found,) = asked(server, _FIGURES)
    return [int(each) for each in found]


def _add(table: Table, name: str, minutes: float, keys: int, now: Any, first: Any) -> None:
    heap, index, dead, updated, hot, vacuums = now
    table.add(
        name,
        f"{minutes:.1f}",
        f"{updated / keys:.1f}",
        f"{heap / 2**20:.1f}",
        f"{index / 2**20:.1f}",
        f"{(heap + index) / (first[0] + first[1]):.2f}",
        count(dead),
        f"{hot / updated:.1%}" if updated else "",
        vacuums,
    )

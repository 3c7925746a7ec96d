"""A server that crashes before, inside and after each statement of a protocol, round after round.

After each round the tables and what the sink has are compared with what a plain loop comes to.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Polled, Source, Split, SplitReader
from tests.connectors.postgres.crash_points import MOMENTS, POINTS, crash, install
from tests.drive.ledger import PATIENCE_S, SCHEMA, Shelf, await_until, complete_epochs
from tests.services.postgres import PostgresServer, asked, name_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

KEYS = 1_500
STEP = 3_000
"""Rows of one round. Each key comes twice, and all of them do not fit into the cache."""
PADDING = "." * 1_000
AWAY_S = 60.0
PROTOCOLS = tuple(POINTS)
ALL = [
    (protocol, point, moment)
    for protocol in PROTOCOLS
    for point in POINTS[protocol]
    for moment in MOMENTS
]
ROUNDS = 20


class UpTo(Source):
    """The numbers up to what a file says, in order; they end when it says so."""

    schema = SCHEMA

    def __init__(self, folder: Path) -> None:
        self.file = str(folder / "up-to")

    def tell(self, count: int, *, is_end: bool = False) -> None:
        draft = Path(f"{self.file}.draft")
        draft.write_text(f"{count} {int(is_end)}")
        draft.replace(self.file)

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("all")]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _UpToReader(Path(self.file), offset or 0)


class _UpToReader(SplitReader):
    def __init__(self, file: Path, position: int) -> None:
        self._file, self._position = file, position

    def poll(self, max_rows: int) -> Polled:
        count, is_end = map(int, self._file.read_text().split())
        ids = np.arange(self._position, min(self._position + max_rows, count), dtype=np.int64)
        self._position += len(ids)
        batch = pa.record_batch([pa.array(ids), pa.array(ids % KEYS)], schema=SCHEMA)
        is_over = bool(is_end) and self._position == count
        return Polled(batch if len(ids) else None, self._position, finished=is_over)


class Nth(ms.KeyedProcess):
    """Counts the rows of each key, in order, and knows what it has to find."""

    count = ms.ValueState("struct<n:long,last:long,padding:string>")
    ids = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        found = self.count.get()
        n = 0 if found is None else found.n
        if n != row.id // KEYS or (n and found.last != row.id - KEYS):
            raise AssertionError(f"row {row.id} finds {found} at key {ctx.key}")
        self.count.update((n + 1, row.id, PADDING))
        self.ids.add(row.id)
        return ctx.key, row.id


class CountedJob:
    """A job that gets rows when it is told to, and what it has to have come to then."""

    def __init__(self, dsn: str, folder: Path, protocol: str) -> None:
        self.dsn, self.schema = dsn, f"states {name_of(dsn)}"
        self.given = 0
        self.source, self.shelf = UpTo(folder), Shelf(folder / "shelf")
        self.source.tell(0)
        env = ms.Environment(
            spark="embedded",
            parallelism=2,
            state=ms.Postgres(dsn, protocol=protocol, schema=self.schema, cache="1MiB"),
            snapshots=ms.Snapshots(folder / "snapshots", every="100ms"),
        )
        rows = env.source(self.source, uid="ids").key_by("k")
        rows.process(Nth(), "k long, id long", uid="nth").sink(self.shelf, uid="out")
        self.job = env.start("counted")

    def more(self) -> None:
        self.given += STEP
        self.source.tell(self.given)

    def table(self, state: str = "count") -> str:
        catalog = f'"{self.schema}".mainstay_state_tables'
        ((name,),) = asked(self.dsn, f"SELECT name FROM {catalog} WHERE state = '{state}'")
        return f'"{self.schema}"."{name}"'

    def begin(self) -> str:
        """Have rows of every key in the tables; which table it is."""
        self.more()
        catalog = f"to_regclass('\"{self.schema}\".mainstay_state_tables')"
        await_until(lambda: asked(self.dsn, f"SELECT {catalog}") != [(None,)], "there are tables")
        self.check()
        return self.table()

    def check(self) -> None:
        """Nothing is lost and nothing doubled: in the tables, and in what the sink has."""
        total = f"SELECT coalesce(sum(value_n), 0) FROM {self.table()}"
        await_until(lambda: asked(self.dsn, total)[0][0] >= self.given, "all rows are applied")
        rows = asked(self.dsn, f"SELECT key, value_n, value_last FROM {self.table()}")
        assert sorted(rows) == reference(self.given)
        parts = asked(self.dsn, f"SELECT value FROM {self.table('ids')}")
        assert Counter(id for (ids,) in parts for id in ids) == Counter(range(self.given))
        await_until(lambda: self.shelf.ids().total() >= self.given, "all rows are in the sink")
        assert self.shelf.ids() == Counter(range(self.given))
        assert self.job.status == "running"

    def finish(self) -> None:
        self.source.tell(self.given, is_end=True)
        assert self.job.wait(PATIENCE_S) == "finished"
        assert len(self.job.attempts()) == 1
        assert not self.job.problems()


def reference(count: int) -> list[tuple[int, int, int]]:
    """What a plain loop comes to: how often each key came, and with which number last."""
    totals: dict[int, tuple[int, int]] = {}
    for id in range(count):
        n, _ = totals.get(id % KEYS, (0, 0))
        totals[id % KEYS] = (n + 1, id)
    return sorted((key, n, last) for key, (n, last) in totals.items())


def crash_at(
    server: PostgresServer, dsn: str, folder: Path, protocol: str, rounds: Sequence[tuple[str, str]]
) -> None:
    counted = CountedJob(dsn, folder, protocol)
    table = counted.begin()
    install(dsn, counted.schema, table)
    for point, moment in rounds:
        crash(server, dsn, table, point, moment, counted.more)
        counted.check()
    counted.finish()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_crashes_inside_a_statement_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path, protocol: str
) -> None:
    rounds = [(point, "inside") for point in POINTS[protocol] if point in ("read", "apply")]
    crash_at(server, dsn, tmp_path, protocol, [*rounds, ("commit", "after")])


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_crashes_at_every_point_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path, protocol: str
) -> None:
    rounds = [(point, moment) for point in POINTS[protocol] for moment in MOMENTS]
    chance = random.Random(7)
    chance.shuffle(rounds)
    rounds += chance.choices(rounds, k=max(0, ROUNDS - len(rounds)))
    crash_at(server, dsn, tmp_path, protocol, rounds)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_is_away_for_a_minute_is_waited_for(
    server: PostgresServer, dsn: str, tmp_path: Path, protocol: str
) -> None:
    counted = CountedJob(dsn, tmp_path, protocol)
    counted.begin()
    server.stop("immediate")
    try:
        counted.more()
        problem = await_until(counted.job.problems, "the job says what it waits for")[0]
        assert "cannot reach the database of its state" in str(problem)
        before = complete_epochs(counted.job)
        threading.Event().wait(AWAY_S)  # this long, whatever happens meanwhile
        assert counted.job.status == "running"
        assert counted.job.problems()
        assert complete_epochs(counted.job) > before
    finally:
        server.start()
    counted.check()
    counted.finish()

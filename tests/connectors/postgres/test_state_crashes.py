"""A server that crashes before, inside and after each statement of a protocol, round after round.

After each round what others read and what the sink has are compared with what a plain loop comes
to.
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
from mainstay.state.backends.external import retained
from tests.connectors.postgres.crash_gates import install
from tests.connectors.postgres.crash_points import MOMENTS, POINTS, Crashing
from tests.drive.ledger import PATIENCE_S, SCHEMA, Shelf, await_until, complete_epochs
from tests.services.postgres import PostgresServer, asked, name_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

KEYS = 1_500
STEP = 3_000
"""Rows of one round. Each key comes twice, and all of them do not fit into the cache."""
PADDING = "." * 1_000
AWAY_S = 60.0
PROTOCOLS = tuple(POINTS)
ALL = [(protocol, point) for protocol in PROTOCOLS for point in POINTS[protocol]]
ROUNDS = 20
SOME = {
    "logged": [("read", "inside"), ("apply", "inside"), ("commit", "after")],
    "versioned": [
        ("read", "inside"),
        ("stage", "inside"),
        ("commit", "after"),
        ("pointer", "inside"),
        ("commit of pointer", "after"),
        ("fold", "inside"),
    ],
    "prepared": [
        ("apply", "inside"),
        ("prepare", "inside"),
        ("prepare", "after"),
        ("commit prepared", "before"),
        ("commit prepared", "inside"),
    ],
}
"""What is tried in every run of the tests."""


@pytest.fixture(autouse=True)
def folds_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "LEAST_ROWS", 1)


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
        self.is_versioned, self.given = protocol == "versioned", 0
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
        return self._named("mainstay_state_tables", "name", state)

    def shown(self, state: str = "count") -> str:
        """What others read a state from."""
        if self.is_versioned:
            return self._named("mainstay_state_views", "view", state)
        return self.table(state)

    def _named(self, catalog: str, column: str, state: str) -> str:
        query = f"SELECT {column} FROM \"{self.schema}\".{catalog} WHERE state = '{state}'"
        ((name,),) = asked(self.dsn, query)
        return f'"{self.schema}"."{name}"'

    def begin(self) -> None:
        """Have rows of every key in the tables, and gates."""
        self.more()
        names = "mainstay_state_viewed" if self.is_versioned else "mainstay_state_tables"
        there = f"SELECT to_regclass('\"{self.schema}\".{names}')"
        await_until(lambda: asked(self.dsn, there) != [(None,)], "there are tables")
        some = f'SELECT 1 FROM "{self.schema}".{names}'
        await_until(lambda: asked(self.dsn, some), "there is something to read")
        self.check()
        install(self.dsn, self.schema, self.table(), is_versioned=self.is_versioned)

    def check(self) -> None:
        """Nothing is lost and nothing doubled: in what others read, and in what the sink has."""
        await_until(lambda: self._seen() >= self.given, "all rows are applied")
        rows = asked(self.dsn, f"SELECT key, value_n, value_last FROM {self.shown()}")
        assert sorted(rows) == reference(self.given)
        parts = asked(self.dsn, f"SELECT value FROM {self.shown('ids')}")
        assert Counter(id for (ids,) in parts for id in ids) == Counter(range(self.given))
        await_until(lambda: self.shelf.ids().total() >= self.given, "all rows are in the sink")
        assert self.shelf.ids() == Counter(range(self.given))
        assert self.job.status == "running"

    def _seen(self) -> int:
        """How many rows are in what others read. One statement sees both states as they were at
        one moment: whichever it was, they have the same rows, and every key once."""
        query = f"""
        SELECT (SELECT coalesce(sum(value_n), 0) FROM {self.shown()}),
               (SELECT count(*) - count(DISTINCT key) FROM {self.shown()}),
               (SELECT coalesce(sum(jsonb_array_length(value)), 0) FROM {self.shown("ids")})
        """
        ((rows, keys_twice, ids),) = asked(self.dsn, query)
        assert (keys_twice, ids) == (0, rows)
        return int(rows)

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
    counted.begin()
    crashing = Crashing(server, dsn, counted.schema, counted.table())
    for point, moment in rounds:
        crashing.crash(point, moment, counted.more)
        counted.check()
    counted.finish()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_crashes_inside_a_statement_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path, protocol: str
) -> None:
    crash_at(server, dsn, tmp_path, protocol, SOME[protocol])


@pytest.mark.soak
@pytest.mark.parametrize(("protocol", "point"), ALL)
def test_a_server_that_crashes_at_a_point_again_and_again_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path, protocol: str, point: str
) -> None:
    moments = (MOMENTS * ROUNDS)[:ROUNDS]
    crash_at(server, dsn, tmp_path, protocol, [(point, moment) for moment in moments])


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_crashes_at_one_point_after_the_other_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path, protocol: str
) -> None:
    rounds = [(point, moment) for point in POINTS[protocol] for moment in MOMENTS]
    random.Random(7).shuffle(rounds)
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
        before = complete_epochs(counted.job)
        await_until(lambda: complete_epochs(counted.job) > before, "epochs go on without it")
        counted.more()  # rows that have to be read, and that later epochs wait behind
        problem = await_until(counted.job.problems, "the job says what it waits for")[0]
        assert "cannot reach the database of its state" in str(problem)
        threading.Event().wait(AWAY_S)  # this long, whatever happens meanwhile
        assert counted.job.status == "running"
        assert counted.job.problems()
    finally:
        server.start()
    counted.check()
    counted.finish()
    assert "failed" not in {each.status for each in counted.job.snapshots()}

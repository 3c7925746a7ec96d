"""The databases of the external backend answer alike: the one in memory and PostgreSQL.

Each seed is a job that calls both as the backend does, and compares every answer. Where it comes to
rest the rows, the views and a plain model of the state are compared as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

from mainstay.connectors.postgres.states import fencing
from mainstay.connectors.postgres.states.settings import Postgres
from mainstay.connectors.postgres.states.tables import table_name
from mainstay.connectors.postgres.states.version_tables import VersionTables
from mainstay.connectors.postgres.states.views import view_name
from mainstay.errors import FencedError
from mainstay.testing.memory_store import MemoryServer, MemoryStoreSettings
from tests.contract.store_jobs import EVERY, Job
from tests.contract.store_pairs import STATES, Log, Pair
from tests.contract.store_rows import held, seen
from tests.services.postgres import PostgresServer, asked
from tests.simulation.shares import dealt

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

PROTOCOLS = ("logged", "prepared", "versioned")
SEEDS = 4
STEPS = 120
SCHEMA = "alike"


class Bench:
    """A job over both databases. It fails with what it did last."""

    def __init__(self, dsn: str, protocol: str, seed: int) -> None:
        self.dsn, self.random = dsn, Random(f"{protocol}-{seed}")
        self.log = Log()
        self._memory, self._server = MemoryStoreSettings("alike", protocol=protocol), MemoryServer()
        self._real = Postgres(dsn, protocol=protocol, schema=SCHEMA)
        self._pairs: list[Pair] = []
        self.job = Job(self.random, protocol, self.connect, f"{seed}-{dsn[-12:]}")

    def connect(self) -> Pair:
        pair = Pair(self._memory.store(self._server), self._real._store(), self.log)
        self._pairs.append(pair)
        return pair

    def close(self) -> None:
        while self._pairs:
            self._pairs.pop().close()

    def run(self, steps: int) -> None:
        job = self.job
        job.restart()
        moves = [job.write] * 12 + [job.bring] * 16 + [job.cut_epoch] * 6 + [job.vote] * 6
        moves += [job.complete_epoch] * 5 + [job.give_up_epoch] + [job.say] * 12 + [job.fold] * 3
        moves += [job.look] * 4 + [self.haunt, job.ask_for_others, job.restart, job.restart]
        for _ in range(steps):
            move = self.random.choice(moves)
            self.log.note(f"-- {move.__name__}")
            move()
            if self.random.random() < 0.2:
                self.check_views()
        self.rest()

    def haunt(self) -> None:
        if self.job.old:
            with pytest.raises(FencedError):
                self.job.haunt()

    # ------------------------------------------------------------ at rest

    def rest(self) -> None:
        """Bring everything, and compare all there is."""
        job = self.job
        job.restart(parallelism=1)
        (only,) = job.subtasks
        while only.waiting:
            job.bring()
        while job.is_versioned and max(job.chains) > 0 and job.pointer < max(job.chains):
            job.say()
        expected = job.newest
        for state in STATES:
            rows = only.pair.scan(job.tables, state.name, EVERY)
            assert held(state.name, rows) == expected.get(state.name, {}), f"{self.log}"
        self.check_views()
        if not job.is_versioned:
            self.check_columns()

    def check_columns(self) -> None:
        """What people read beside the cells."""
        expected = self.job.newest
        for state in STATES[:2]:
            table = table_name(self.job.tables, state.name)
            columns = "key, map_key, value" if state.kind == "map" else "key, value"
            rows = asked(self.dsn, f'SELECT {columns} FROM {SCHEMA}."{table}"')
            assert sorted(rows, key=repr) == seen(state.name, expected), f"{self.log}"

    def check_views(self) -> None:
        """What others see of the epoch at the pointer, and of each that can be looked at."""
        job = self.job
        if not job.is_versioned or job.pointer == 0:
            return
        versions = job.subtasks[0].pair.memory.versions(job.tables)
        assert versions.pointer == job.pointer
        for state in STATES:
            view = f'{SCHEMA}."{view_name(job.tables, state.name)}'
            self.check_view(f'{view}"', state.name, job.pointer)
            epochs = versions.viewable
            for epoch in self.random.sample(epochs, min(1, len(epochs))):
                self.check_view(f'{view}_at"({epoch})', state.name, epoch)

    def check_view(self, source: str, state: str, epoch: int) -> None:
        expected = self.job.contents[epoch]
        rows = asked(self.dsn, f"SELECT * FROM {source}")
        assert sorted(rows, key=repr) == seen(state, expected), f"{source}\n{self.log}"
        memory = self.job.subtasks[0].pair.memory.view(self.job.tables, state, epoch)
        assert held(state, memory) == expected.get(state, {}), f"{source}\n{self.log}"


@pytest.fixture
def bench(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, int], Any]]:
    monkeypatch.setattr(fencing, "WAIT_MS", 20)
    made: list[Bench] = []

    def make(protocol: str, seed: int) -> Bench:
        made.append(Bench(server.schema(), protocol, seed))
        return made[-1]

    yield make
    for each in made:
        each.close()


def run_all(bench: Callable[[str, int], Bench], protocol: str, seeds: Iterable[int]) -> None:
    for seed in seeds:
        each = bench(protocol, seed)
        each.run(STEPS)
        each.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_databases_answer_alike(bench: Callable[[str, int], Bench], protocol: str) -> None:
    run_all(bench, protocol, range(SEEDS))


@pytest.mark.mutation
def test_a_database_that_takes_back_too_much_is_noticed(
    bench: Callable[[str, int], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removed what other subtasks had brought under the same number."""
    real = VersionTables.take_back

    def too_much(tables: Any, connection: Any, name: str, segment: Any, run: Any) -> None:
        real(tables, connection, name, segment, EVERY)

    monkeypatch.setattr(VersionTables, "take_back", too_much)
    with pytest.raises(AssertionError, match=r"in the real one|alike\."):
        run_all(bench, "versioned", range(20))


@pytest.mark.parametrize(("protocol", "seeds"), dealt("external stores", SEEDS, list(PROTOCOLS)))
def test_both_databases_answer_alike_for_many_seeds(
    bench: Callable[[str, int], Bench], protocol: str, seeds: range
) -> None:
    run_all(bench, protocol, seeds)

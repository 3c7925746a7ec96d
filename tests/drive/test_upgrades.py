"""Upgraded programs on worker processes: they go on from an older one's savepoint, exactly once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import RestoreError
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state
from tests.drive.ledger import KEYS, PATIENCE_S, Ids, Shelf, await_attempt

COUNT = 6_000


class Ledger(ms.KeyedProcess):
    """The program as it was: what it has seen, how many, and a note that nobody ever read."""

    seen = ms.ListState("long")
    n = ms.ValueState("int")
    note = ms.ValueState("string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.add(row.id)
        self.n.update((self.n.get() or 0) + 1)
        self.note.update(f"last {row.id}")
        return ctx.key, row.id


class Journal(ms.KeyedProcess):
    """The program as it is now.

    Its class has another name, ``n`` is wider, ``note`` is gone, and there is a state that counts
    what came since.
    """

    seen = ms.ListState("long")
    n = ms.ValueState("long")
    since = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.add(row.id)
        self.n.update((self.n.get() or 0) + 1)
        self.since.update((self.since.get() or 0) + 1)
        return ctx.key, row.id


def planned(function: ms.KeyedProcess, shelf: Shelf, workers: int, per_second: float) -> JobSpec:
    env = ms.Environment(parallelism=workers)
    ids = env.source(Ids(COUNT, per_second), uid="ids")
    written = ids.key_by("k").process(function, "k long, id long", uid="ledger")
    written.sink(shelf, uid="shelf")
    return env.plan()


def started(spec: JobSpec, folder: Path, restore: RestoreOptions) -> RemoteJob:
    restart = RestartOptions(max_failures=100, backoff_s=0.05, max_backoff_s=0.2)
    options = JobOptions("ledger", "ledger", SnapshotOptions(every_s=0.2), restart, restore)
    return RemoteJob("ledger", spec, options, str(folder), ProcessLauncher())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A savepoint of the older program, stopped in the middle."""
    spec = planned(Ledger(), Shelf(tmp_path / "shelf"), 3, per_second=1_500.0)
    job = started(spec, tmp_path / "older", RestoreOptions("new"))
    await_attempt(job, 1, 3)
    job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    return tmp_path / "saved"


def test_an_upgraded_program_goes_on_at_another_parallelism(saved: Path, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "shelf")
    before = shelf.ids()
    assert 0 < sum(before.values()) < COUNT
    spec = planned(Journal(), shelf, 2, per_second=100_000.0)
    dropped = frozenset({"ledger.note"})
    restore = RestoreOptions("new", dropped, origin=str(saved))
    assert started(spec, tmp_path / "newer", restore).wait(PATIENCE_S) == "finished"

    # Every id was put out once, by the one program or by the other.
    assert shelf.ids() == Counter(range(COUNT))
    storage = open_storage(str(tmp_path / "newer"))
    expected = Counter(id % KEYS for id in range(COUNT))
    seen = committed_state(storage, spec, "ledger", "seen")
    assert sorted(id for ids in seen.values() for id in ids) == list(range(COUNT))
    assert committed_state(storage, spec, "ledger", "n") == expected
    since = committed_state(storage, spec, "ledger", "since")
    assert since == Counter(id % KEYS for id in range(COUNT) if id not in before)


def test_a_state_that_is_gone_is_refused_unless_it_is_named(saved: Path, tmp_path: Path) -> None:
    spec = planned(Journal(), Shelf(tmp_path / "shelf"), 2, per_second=100_000.0)
    job = started(spec, tmp_path / "newer", RestoreOptions("new", origin=str(saved)))
    with pytest.raises(RestoreError, match=r"note"):
        job.wait(PATIENCE_S)

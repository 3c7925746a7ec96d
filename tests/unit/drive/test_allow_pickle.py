"""``allow_pickle=False``: nothing of the storage is unpickled, and what would be is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows, Sequence
from mainstay.errors import GraphError, RestoreError

PATIENCE_S = 30


class Untyped(ms.KeyedProcess):
    last = ms.ValueState()
    count = ms.ValueState("long")

    def process(self, row: Any, context: Any) -> Any:
        self.last.update({"n": row.n})
        self.count.update((self.count.get() or 0) + 1)


class UntypedKeys(ms.KeyedProcess):
    seen = ms.MapState(None, "long")

    def process(self, row: Any, context: Any) -> Any:
        self.seen.put(row.n, 1)


class UntypedList(ms.Process):
    seen = ms.OperatorListState()

    def process(self, row: Any, context: Any) -> Any:
        self.seen.add([row.n])


class Typed(ms.KeyedProcess):
    count = ms.ValueState("long")

    def process(self, row: Any, context: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)


class Migrated(ms.KeyedProcess):
    last = ms.ValueState("long", migrate=lambda old: old["n"])
    count = ms.ValueState("long")

    def process(self, row: Any, context: Any) -> Any:
        self.last.update(row.n)


def environment(directory: Path, function: Any, **more: Any) -> ms.Environment:
    env = ms.Environment(
        spark="embedded", parallelism=1, snapshots=ms.Snapshots(directory, every="1h"), **more
    )
    ids = env.source(Sequence(rows_per_second=1000), uid="in")
    stream = ids.map(lambda row: (f"k{row.id % 3}", row.id), schema="k string, n long", uid="rows")
    if isinstance(function, ms.Process):
        stream.process(function, schema="k string", uid="f").sink(Memory(), uid="out")
    else:
        stream.key_by("k").process(function, schema="k string", uid="f").sink(Memory(), uid="out")
    return env


@pytest.mark.parametrize(
    ("function", "name"),
    [(Untyped(), "f.last"), (UntypedKeys(), "f.seen"), (UntypedList(), "f.seen")],
)
def test_a_state_without_a_type_is_refused_by_name_when_the_job_is_started(
    function: Any, name: str, tmp_path: Path
) -> None:
    with pytest.raises(GraphError, match=rf"{name} have no declared type.*Declare one"):
        environment(tmp_path, function, allow_pickle=False).start("job")


def stopped(env: ms.Environment, path: Path | None = None) -> None:
    """Run a job for an epoch, and stop it, with a savepoint if a path is given."""
    job = env.start("job")
    job.stop(path, timeout=PATIENCE_S)
    assert job.wait(PATIENCE_S) == "stopped"


def test_a_job_of_declared_types_runs_and_is_restored(tmp_path: Path) -> None:
    for restore in (None, "latest"):
        stopped(environment(tmp_path, Typed(), allow_pickle=False, restore=restore))


class Keeping(Memory):
    keeps_pickles = True


def test_a_connector_that_keeps_pickles_is_refused_by_name(tmp_path: Path) -> None:
    env = environment(tmp_path, Typed(), allow_pickle=False)
    env.source(Rows("n long", []), uid="more").sink(Keeping(), uid="pickling")
    with pytest.raises(GraphError, match="what pickling keeps in snapshots is pickled"):
        env.start("job")


@pytest.mark.parametrize("place", ["latest", "other job", "savepoint"])
@pytest.mark.parametrize("function", [Migrated(), Untyped()])
def test_pickled_values_of_a_snapshot_are_refused_by_name(
    function: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "saved"
    stopped(environment(tmp_path / "a", Untyped()), saved)
    restore: Any = {"latest": "latest", "other job": tmp_path / "a", "savepoint": saved}[place]
    directory = tmp_path / ("a" if place == "latest" else "b")
    # start() would refuse the program already, where it has such states itself.
    monkeypatch.setattr("mainstay.api.environment.check_no_pickles", lambda graph: None)
    job = environment(directory, function, allow_pickle=False, restore=restore).start("job")
    with pytest.raises(RestoreError, match=r"pickled values of the states f\.last,"):
        job.wait(PATIENCE_S)
    assert job.attempts() == []


def test_a_pickled_state_that_is_dropped_does_not_keep_a_job_from_going_on(tmp_path: Path) -> None:
    stopped(environment(tmp_path, Untyped()))
    dropping = {"restore": "latest", "allow_dropped": ["f.last"]}
    stopped(environment(tmp_path, Typed(), allow_pickle=False, **dropping))


def test_a_migration_with_pickles_allowed_leads_to_a_job_without_them(tmp_path: Path) -> None:
    stopped(environment(tmp_path, Untyped()))
    stopped(environment(tmp_path, Migrated(), restore="latest"))
    stopped(environment(tmp_path, Migrated(), allow_pickle=False, restore="latest"))

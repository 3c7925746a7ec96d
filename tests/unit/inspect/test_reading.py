"""Every kind of state is read as a table, from every kind of place, without Spark."""

from __future__ import annotations

import operator
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import (
    DamagedFileError,
    EpochGoneError,
    RestoreError,
    SnapshotStorageError,
    SparkSetupError,
)
from mainstay.inspect.reading import Origin
from mainstay.schema import sizes
from tests.drive.ledger import await_until
from tests.spark.states import numbers_by_key, stopped_half_way
from tests.unit.drive.test_embedded import KEYS, PATIENCE_S, environment

BY_KEY = numbers_by_key()
PLACES = ("snapshots", "savepoint")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where a job that was stopped half-way has its state."""
    folder = tmp_path_factory.mktemp("half-way")
    _, _, saved = stopped_half_way(folder)
    return {"snapshots": str(folder / "snapshots"), "savepoint": saved}


def table_of(path: Any, state: str, uid: str = "all", least: int = 3) -> pa.Table:
    slices = Origin.open(str(path)).view(uid, state).slices(least)
    return pa.concat_tables([part.read() for part in slices])


def by_key(table: pa.Table, column: str) -> dict[tuple[str, int], Any]:
    found = {(row["customer"], row["region"]): row[column] for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


@pytest.mark.parametrize("place", PLACES)
def test_values_lists_and_maps_are_read(places: dict[str, str], place: str) -> None:
    path = places[place]
    total = table_of(path, "total")
    assert total.column_names == ["customer", "region", "total", "key_group"]
    assert by_key(total, "total") == {key: sum(numbers) for key, numbers in BY_KEY.items()}
    lists = by_key(table_of(path, "numbers"), "numbers")
    assert {key: sorted(found) for key, found in lists.items()} == BY_KEY
    last = by_key(table_of(path, "last"), "last")
    assert {key: row["n"] for key, row in last.items()} == {k: n[-1] for k, n in lists.items()}
    pickled = by_key(table_of(path, "anything"), "anything")
    assert {key: pickle.loads(found)["n"] for key, found in pickled.items()} == {
        key: numbers[-1] for key, numbers in lists.items()
    }
    entries = table_of(path, "parities")
    assert entries.column_names == ["customer", "region", "map_key", "parities", "key_group"]
    counted = {
        (row["customer"], row["region"], row["map_key"]): row["parities"]
        for row in entries.to_pylist()
    }
    for (customer, region), numbers in BY_KEY.items():
        assert counted[(customer, region, "even")] == sum(n % 2 == 0 for n in numbers)


@pytest.mark.parametrize("place", PLACES)
def test_states_with_a_time_to_live_show_when_they_were_touched(
    places: dict[str, str], place: str
) -> None:
    path = places[place]
    created_at = Origin.open(path).manifest.created_at
    lists = table_of(path, "recent")
    assert lists.column_names == ["customer", "region", "recent", "touched_at", "key_group"]
    assert by_key(lists, "recent") == by_key(table_of(path, "numbers"), "numbers")
    for row in lists.to_pylist():
        assert len(row["touched_at"]) == len(row["recent"])
        assert all(moment.timestamp() <= created_at + 1 for moment in row["touched_at"])
    sessions = table_of(path, "session")
    assert sessions.column_names == ["customer", "region", "session", "touched_at", "key_group"]
    assert by_key(sessions, "session") == {
        key: f"session {numbers[-1]}" for key, numbers in by_key(lists, "recent").items()
    }
    assert table_of(path, "pages").num_rows == 2 * KEYS


@pytest.mark.parametrize("place", PLACES)
def test_aggregates_and_operator_state_are_read(places: dict[str, str], place: str) -> None:
    path = places[place]
    sums = table_of(path, "aggregates", "sums").to_pylist()
    assert {row["customer"]: row["aggregates"] for row in sums} == {
        customer: {"total": sum(numbers), "n": len(numbers)}
        for (customer, _), numbers in BY_KEY.items()
    }
    units = table_of(path, "seen", "numbered")
    assert units.column_names == ["subtask", "unit"]
    assert sorted(units.column("unit").to_pylist()) == list(range(10))
    assert set(units.column("subtask").to_pylist()) == {0, 1}


class Few(ms.KeyedProcess):
    """A value, and a list whose elements have stamps."""

    total = ms.ReducingState("long", operator.add)
    recent = ms.ListState("long", ttl="1 hour")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        self.recent.add(row.n)
        return ctx.key, self.total.get()


def numbered(first: int, rows: int) -> Any:
    numbers = list(range(first, first + rows))
    return pa.record_batch({"k": [n % KEYS for n in numbers], "n": numbers})


def test_checkpoints_of_a_database_are_read(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    rocks = ms.RocksDB(directory=tmp_path / "databases")
    env = environment(tmp_path / "job", parallelism=2, state=rocks)
    source = ms.connectors.Generate("k long, n long", numbered, rows_per_second=200)
    keyed = env.source(source, uid="numbers").key_by("k")
    keyed.process(Few(), "k long, total long", uid="few").sink(Memory(), uid="out")
    job = env.start("few")
    await_until(
        lambda: sum(record.status == "complete" for record in job.snapshots()) >= 14,
        "epochs enough for a checkpoint are complete",
    )
    saved = job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    origin = Origin.open(str(tmp_path / "job"))
    chains = [task.chain for task in origin.operator("few").subtasks]
    assert all(any(ref.parts for ref in chain) for chain in chains)
    view = origin.view("few", "total")
    assert len(view.slices(least=9)) == 2, "no checkpoint is fetched twice"
    for state in ("total", "recent"):
        found = table_of(tmp_path / "job", state, "few").sort_by("k")
        assert found.equals(table_of(saved, state, "few").sort_by("k"))
        assert found.column("k").to_pylist() == list(range(KEYS))
    (group,) = view.groups_of([(3,)])
    (part,) = view.slices(groups=[group])
    assert 3 in part.read().column("k").to_pylist()
    assert len([ref for ref in part.chain if ref.parts]) == 1


# ---------------------------------------------------------------- which epoch


def test_an_epoch_is_opened_by_its_number(places: dict[str, str]) -> None:
    place = places["snapshots"]
    latest = Origin.open(place)
    epoch = latest.manifest.epoch
    assert latest.name == f"{place}#{epoch}"
    assert Origin.open(place, epoch) == Origin.open(latest.name) == latest
    assert Origin.open(latest.name, str(epoch)) == latest
    assert Origin.open(places["savepoint"], epoch).name == places["savepoint"]


@pytest.mark.parametrize(
    ("place", "epoch", "message"),
    [
        ("snapshots", 99999, r"there is no epoch 99999 in the snapshots at"),
        ("snapshots", 1, r"epoch 1 in the snapshots at .* is not kept any more; kept (is|are) \d"),
        ("snapshots", "newest", 'is no epoch. Give its number, or "latest"'),
        ("snapshots", True, "is no epoch"),
        ("savepoint", 99999, r"is a savepoint of epoch \d+ and has no epoch 99999"),
    ],
)
def test_an_epoch_that_is_not_there_is_refused(
    places: dict[str, str], place: str, epoch: Any, message: str
) -> None:
    with pytest.raises(RestoreError, match=message):
        Origin.open(places[place], epoch)


def test_what_is_not_there_is_named_with_what_is(places: dict[str, str], tmp_path: Path) -> None:
    origin = Origin.open(places["savepoint"])
    with pytest.raises(RestoreError, match=r"no operator 'al' .*there are \['all', 'combine-1'"):
        origin.view("al", "total")
    with pytest.raises(RestoreError, match=r"has no state 'totl'; it has \['anything', 'last'"):
        origin.view("all", "totl")
    with pytest.raises(SnapshotStorageError, match="there is no folder"):
        Origin.open(str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(SparkSetupError, match="memory://"):
        Origin.open("memory://here")


def test_an_epoch_that_a_running_job_has_retired_since_is_gone_and_not_damaged(
    tmp_path: Path,
) -> None:
    stopped_half_way(tmp_path)
    (part, *_) = Origin.open(str(tmp_path / "snapshots")).view("all", "total").slices()
    retired = [*(tmp_path / "snapshots" / "epochs").iterdir()]
    state = (tmp_path / "snapshots" / "state").rglob("*")
    for file in (*retired, *filter(Path.is_file, state)):
        file.unlink()
    advice = r"is not kept any more; .*Snapshots\(retain=\.\.\.\).*savepoint"
    with pytest.raises(EpochGoneError, match=advice):
        part.read()


def test_a_file_that_is_missing_from_a_savepoint_is_damage(tmp_path: Path) -> None:
    _, _, saved = stopped_half_way(tmp_path)
    (part, *_) = Origin.open(saved).view("all", "total").slices()
    for file in Path(saved).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(DamagedFileError, match=r"state 'total' at .*bytes, found none"):
        part.read()


@pytest.mark.parametrize("place", PLACES)
def test_state_that_no_array_can_hold_is_read_in_several(
    places: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, states = places[place], ("total", "numbers", "last", "anything", "parities", "recent")
    expected = {state: table_of(path, state, least=1) for state in states}
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 4000)
    for state in states:
        found = table_of(path, state, least=1)
        names = [name for name in found.column_names if name != "touched_at"]
        assert _as_rows(found, names) == _as_rows(expected[state], names)


def _as_rows(table: pa.Table, names: list[str]) -> list[str]:
    return sorted(map(str, table.select(names).to_pylist()))

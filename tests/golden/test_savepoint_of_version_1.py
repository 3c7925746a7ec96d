"""A savepoint of version 1 is restored with all its states, at another parallelism, to the end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mainstay.runtime.status import Status
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.settings import SimulationSettings
from tests.golden.finished import check_states
from tests.golden.job import ROWS
from tests.golden.savepoint import simulate

STORED = Path(__file__).parent / "data" / "savepoint-v1"
ALL = SimulationSettings()


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    # Moved, and so without any path it was written under.
    return Path(shutil.copytree(STORED, tmp_path / "moved"))


def test_it_was_taken_in_the_middle() -> None:
    totals = pq.read_table(STORED / "state" / "all" / "total").to_pydict()
    assert totals["key_group"] == sorted(totals["key_group"])
    assert 0 < sum(totals["value"]) < sum(amount for _, _, amount in ROWS)


def test_it_is_restored_with_all_its_states(savepoint: Path) -> None:
    storage = MemoryStorage()
    job, simulation = simulate(storage, 3, ALL, open_storage(str(savepoint)))
    assert simulation.coordinator.error is None
    assert simulation.coordinator.status is Status.FINISHED
    check_states(storage, job)


def test_nothing_is_left_in_the_new_history_that_needs_it(savepoint: Path) -> None:
    storage = MemoryStorage()
    simulate(storage, 2, SimulationSettings(stop_after_epochs=1), open_storage(str(savepoint)))
    shutil.rmtree(savepoint)
    assert storage.list("state/")
    assert not any(path.endswith(".parquet") for path in storage.list(""))


FILES = sorted(str(path.relative_to(STORED)) for path in STORED.rglob("*.parquet"))


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("how", ["deleted", "truncated", "altered"])
def test_a_damaged_file_ends_the_restore_with_its_name(
    savepoint: Path, path: str, how: str
) -> None:
    file = savepoint / path
    data = file.read_bytes()
    if how == "deleted":
        file.unlink()
    elif how == "truncated":
        file.write_bytes(data[: len(data) // 2])
    else:
        middle = len(data) * 3 // 4
        file.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    _, simulation = simulate(MemoryStorage(), 2, ALL, open_storage(str(savepoint)))
    assert simulation.coordinator.status is Status.FAILED
    assert f"{path} of the savepoint is damaged" in str(simulation.coordinator.error)


def test_without_its_description_it_is_no_savepoint(savepoint: Path) -> None:
    (savepoint / "savepoint.json").unlink()
    _, simulation = simulate(MemoryStorage(), 2, ALL, open_storage(str(savepoint)))
    assert "there is no savepoint" in str(simulation.coordinator.error)

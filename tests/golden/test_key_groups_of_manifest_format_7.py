"""Operators with key-groups of their own, and broadcast state, as they were first stored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import mainstay as ms
from mainstay.errors import RestoreError
from mainstay.runtime.status import Status
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import latest_manifest
from mainstay.testing.settings import SimulationSettings
from tests.golden.key_groups import RATES, check_states, simulate

DATA = Path(__file__).parent / "data"
SNAPSHOT, SAVEPOINT = DATA / "key-groups-snapshot-v7", DATA / "key-groups-savepoint-v4"


@pytest.mark.parametrize("parallelism", [1, 3, 7])
def test_a_snapshot_is_restored_with_all_its_states(tmp_path: Path, parallelism: int) -> None:
    storage = open_storage(str(shutil.copytree(SNAPSHOT, tmp_path / "snapshot")))
    before = latest_manifest(storage)
    assert before is not None
    job, simulation = simulate(storage, parallelism, SimulationSettings(), restore="latest")
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    assert simulation.attempts[0].restored_from == before.epoch
    check_states(storage, job)


def test_a_savepoint_is_restored_with_all_its_states() -> None:
    storage = MemoryStorage()
    job, simulation = simulate(
        storage, 3, SimulationSettings(), origin=open_storage(str(SAVEPOINT))
    )
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    check_states(storage, job)


def test_another_number_for_the_operator_is_refused(tmp_path: Path) -> None:
    storage = open_storage(str(shutil.copytree(SNAPSHOT, tmp_path / "snapshot")))
    _, simulation = simulate(storage, 2, SimulationSettings(), restore="latest", totals=8)
    assert isinstance(simulation.coordinator.error, RestoreError)
    assert str(simulation.coordinator.error) == (
        "operator 'totals': epoch 2 was written with max_parallelism=7, the job asks for 8. Keys "
        "are bound to their key-groups for the life of the state: set max_parallelism=7, or "
        "rewrite the state with mainstay.spark.rebucket(spark, source, target, max_parallelism="
        "{'totals': 8}) and start from the target."
    )


def test_manifests_and_descriptions_have_the_numbers_of_operators() -> None:
    manifests = [json.loads(path.read_bytes()) for path in (SNAPSHOT / "epochs").iterdir()]
    assert {manifest["format"] for manifest in manifests} == {7}
    described = json.loads((SAVEPOINT / "savepoint.json").read_bytes())
    assert described["format"] == 4
    for document in (*manifests, described):
        assert document["max_parallelism"] == 16
        own = {uid: each.get("max_parallelism") for uid, each in document["operators"].items()}
        assert {uid: most for uid, most in own.items() if most} == {"totals": 7, "priced": 40}


@pytest.mark.parametrize("place", [SNAPSHOT, SAVEPOINT], ids=["snapshot", "savepoint"])
def test_its_states_are_read_from_outside(place: Path) -> None:
    state = ms.connect(str(place))
    assert state.query("priced.rates").value == dict(RATES)
    found = state.query("totals.total").values()
    assert all(state.query("totals.total", key=key).value == found[key] for key in found)
    assert sum(found.values()) > 0


def test_the_files_of_a_savepoint_hold_the_key_groups_of_the_operator() -> None:
    totals = pq.read_table(SAVEPOINT / "state" / "totals" / "total").column("key_group")
    priced = pq.read_table(SAVEPOINT / "state" / "priced" / "n").column("key_group")
    assert max(totals.to_pylist()) < 7
    assert 16 < max(priced.to_pylist()) < 40

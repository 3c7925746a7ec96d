"""States by key and namespace, as they were first stored, are restored to the end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from mainstay.runtime.status import Status
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import latest_manifest
from mainstay.testing.settings import SimulationSettings
from tests.golden.namespaces import ROWS, check_states, simulate

DATA = Path(__file__).parent / "data"
SNAPSHOT, SAVEPOINT = DATA / "namespaces-snapshot-v6", DATA / "namespaces-savepoint-v3"


def test_a_snapshot_is_restored_with_all_its_states(tmp_path: Path) -> None:
    storage = open_storage(str(shutil.copytree(SNAPSHOT, tmp_path / "snapshot")))
    before = latest_manifest(storage)
    assert before is not None
    job, simulation = simulate(storage, 3, SimulationSettings(), restore="latest")
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    assert simulation.attempts[0].restored_from == before.epoch
    check_states(storage, job)


def test_a_savepoint_is_restored_with_all_its_states() -> None:
    storage = MemoryStorage()
    origin = open_storage(str(SAVEPOINT))
    job, simulation = simulate(storage, 3, SimulationSettings(), origin=origin)
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    check_states(storage, job)


def test_manifests_and_descriptions_name_the_types_of_namespaces() -> None:
    manifests = [json.loads(path.read_bytes()) for path in (SNAPSHOT / "epochs").iterdir()]
    assert {manifest["format"] for manifest in manifests} == {6}
    described = json.loads((SAVEPOINT / "savepoint.json").read_bytes())
    assert described["format"] == 3
    expected = {"total": "long", "amounts": "string", "regions": "struct<start:int,end:int>"}
    for document in (*manifests, described):
        states = document["operators"]["all"]["states"]
        named = {state["name"]: state["namespace"] for state in states if "namespace" in state}
        assert named == expected


def test_a_savepoint_has_the_namespace_in_a_column_after_the_key() -> None:
    table = pq.read_table(SAVEPOINT / "state" / "all" / "total")
    assert table.column_names == ["key_group", "key", "namespace", "value"]
    assert table.column("key_group").to_pylist() == sorted(table.column("key_group").to_pylist())
    assert 0 < sum(table.column("value").to_pylist()) < sum(amount for _, _, amount in ROWS)
    by_key = {row["key"]: row["key_group"] for row in table.to_pylist()}
    assert all(by_key[row["key"]] == row["key_group"] for row in table.to_pylist())

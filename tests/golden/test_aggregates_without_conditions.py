"""Aggregates as they were kept before they took conditions are restored to the end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mainstay.runtime.status import Status
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import latest_manifest
from tests.golden.aggregates import check_states, simulate

STORED = Path(__file__).parent / "data" / "aggregates-snapshot-v1"
FIELDS = (
    "struct<total:long,n:long,named:long,low:long,high:string,average_sum:double,"
    "average_count:long,price:decimal(20,2),one:string,other:string,names:array<string>>"
)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_snapshot_is_restored_with_its_aggregates(tmp_path: Path, parallelism: int) -> None:
    storage = open_storage(str(shutil.copytree(STORED, tmp_path / "snapshot")))
    before = latest_manifest(storage)
    assert before is not None
    job, simulation = simulate(storage, parallelism, restore="latest", stop_after=None)
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    assert simulation.attempts[0].restored_from == before.epoch
    check_states(storage, job)


def test_the_manifest_names_the_accumulators() -> None:
    for path in (STORED / "epochs").iterdir():
        (state,) = json.loads(path.read_bytes())["operators"]["totals"]["states"]
        assert (state["kind"], state["value_type"]) == ("columns", FIELDS)

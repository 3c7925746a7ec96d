"""A snapshot directory written by version 0.1 is restored, at another parallelism, to the end."""

from __future__ import annotations

import shutil
from pathlib import Path

from mainstay.runtime.status import Status
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import latest_manifest
from tests.golden.finished import check_states
from tests.golden.job import simulate

STORED = Path(__file__).parent / "data" / "snapshot-v1"


def test_a_snapshot_of_version_1_is_restored_with_all_its_states(tmp_path: Path) -> None:
    directory = tmp_path / "snapshot"
    shutil.copytree(STORED, directory)
    storage = open_storage(str(directory))
    before = latest_manifest(storage)
    assert before is not None
    job, simulation = simulate(str(directory), 3, restore="latest", stop_after=None)
    assert simulation.coordinator.error is None
    assert simulation.coordinator.status is Status.FINISHED
    assert simulation.attempts[0].restored_from == before.epoch
    check_states(storage, job)

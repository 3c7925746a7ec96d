"""Segments of several operators in one file, as they were first stored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mainstay.inspect.survey import survey
from mainstay.inspect.survey_orphans import find_orphans
from mainstay.runtime.status import Status
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.verifying import verify_manifest
from mainstay.testing.inspect import latest_manifest
from mainstay.testing.settings import SimulationSettings
from tests.golden.key_groups import check_states, simulate

SNAPSHOT = Path(__file__).parent / "data" / "shared-snapshot-v8"


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_snapshot_is_restored_with_all_its_states(tmp_path: Path, parallelism: int) -> None:
    storage = open_storage(str(shutil.copytree(SNAPSHOT, tmp_path / "snapshot")))
    before = latest_manifest(storage)
    assert before is not None
    job, simulation = simulate(storage, parallelism, SimulationSettings(), restore="latest")
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    assert simulation.attempts[0].restored_from == before.epoch
    check_states(storage, job)


def test_the_manifest_says_where_each_part_begins() -> None:
    storage = open_storage(str(SNAPSHOT))
    manifest = latest_manifest(storage)
    assert manifest is not None
    assert json.loads(manifest.to_bytes())["format"] == 8
    shared = [file for file in manifest.files() if file.is_shared]
    assert len({file.path for file in shared}) < len(shared)
    verify_manifest(storage, manifest)


def test_a_shared_file_is_no_orphan_while_one_of_its_parts_is_needed() -> None:
    directory = survey(open_storage(str(SNAPSHOT)))
    assert directory is not None
    orphans = find_orphans(directory, now=0.0)
    needed = {file.path for epoch in directory.epochs for file in epoch.files.values()}
    assert any("%shared" in path for path in needed)
    assert not needed & {file.path for file in (*orphans.files, *orphans.left_alone)}
    assert not list(directory.flaws())

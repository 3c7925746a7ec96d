"""In-flight rows that an older version named by chains are taken, also by a changed program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mainstay.runtime.status import Status
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state, latest_manifest
from tests.golden.unaligned import ROWS, planned, simulate
from tests.simulation.changes import in_flight_units

STORED = Path(__file__).parent / "data" / "unaligned-v1"


@pytest.mark.parametrize("mode", ["unaligned", "exactly_once"])
@pytest.mark.parametrize("parallelism", [2, 3])
@pytest.mark.parametrize("is_chained", [False, True], ids=["as_it_was", "chained"])
def test_in_flight_rows_under_old_names_are_taken(
    tmp_path: Path, mode: str, parallelism: int, is_chained: bool
) -> None:
    directory = tmp_path / "snapshot"
    shutil.copytree(STORED, directory)
    storage = open_storage(str(directory))
    before = latest_manifest(storage)
    assert before is not None
    assert in_flight_units(storage) == 8
    job, _ = planned(parallelism, mode, is_chained=is_chained)
    # Some epochs first, which take over what is not yet taken, and then the rest.
    first = simulate(str(directory), job, restore="latest", stop_after=1)
    assert first.attempts[0].restored_from == before.epoch
    last = simulate(str(directory), job, restore="latest", stop_after=None, seed=2)
    assert last.coordinator.error is None
    assert last.coordinator.status is Status.FINISHED
    expected: dict[str, list[int]] = {}
    for number, key in ROWS:
        expected.setdefault(key, []).append(number)
    state = committed_state(storage, job, "seen", "ids")
    assert {key: sorted(ids) for key, ids in state.items()} == expected

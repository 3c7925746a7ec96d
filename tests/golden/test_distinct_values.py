"""Sets of distinct values as they were stored before segments held what was added to them: a row
that puts the whole of it. They are restored, and go on as rows that append."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import unpack_archive

import pytest

from mainstay.runtime.status import Status
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.statefile import open_state_file
from mainstay.snapshot.storage import Storage
from mainstay.state.operations import APPEND, PUT
from mainstay.testing.inspect import latest_manifest
from tests.golden.distinct import check_state, expected, simulate

STORED = Path(__file__).parent / "data" / "distinct-snapshot-v1.zip"


def ops_of(storage: Storage, uid: str) -> Iterator[int]:
    """What the rows do of which the state of an operator consists."""
    manifest = latest_manifest(storage)
    assert manifest is not None
    for subtask in manifest.operators[uid].subtasks:
        for ref in subtask.chain:
            file = open_state_file(storage, ref.file)
            for name in file.states:
                yield from file.read(name, 0, 15).table.column("op").to_pylist()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_snapshot_is_restored_with_its_sets(tmp_path: Path, parallelism: int) -> None:
    unpack_archive(STORED, tmp_path)
    storage = open_storage(str(tmp_path))
    before = latest_manifest(storage)
    assert before is not None
    assert set(ops_of(storage, "ever")) == {PUT}
    job, simulation, sinks = simulate(storage, parallelism, restore="latest", stop_after=None)
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    assert simulation.attempts[0].restored_from == before.epoch
    check_state(storage, job)
    wanted = {key: (n, len(items), len(names)) for key, (n, items, names) in expected().items()}
    for name in ("days", "visits"):
        rows = sinks[f"{name}-out"].rows()
        assert {row[0]: tuple(row[-3:]) for row in rows} == wanted
        assert len(rows) == len(wanted)


def test_it_goes_on_with_rows_that_append(tmp_path: Path) -> None:
    unpack_archive(STORED, tmp_path)
    storage = open_storage(str(tmp_path))
    simulate(storage, 2, restore="latest", stop_after=6)
    assert APPEND in set(ops_of(storage, "ever"))

"""A snapshot directory written by version 0.1 is restored, at another parallelism, to the end."""

from __future__ import annotations

import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path

from mainstay.runtime.status import Status
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state, latest_manifest
from tests.golden.job import ROWS, simulate

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

    amounts = {c: [a for k, _, a in ROWS if k == c] for c, _, _ in ROWS}
    read = {
        name: committed_state(storage, job, "all", name)
        for name in ("amounts", "total", "average", "by_region", "last", "anything")
    }
    assert {c: sorted(seen) for c, seen in read["amounts"].items()} == amounts
    assert read["total"] == {c: sum(a) for c, a in amounts.items()}
    assert read["average"] == {c: sum(a) / len(a) for c, a in amounts.items()}
    for customer, entries in read["by_region"].items():
        assert set(entries) == {r for c, r, _ in ROWS if c == customer}
        assert all(isinstance(value, Decimal) for value in entries.values())
    for customer, last in read["last"].items():
        assert last.amounts == [last.amounts[0], last.amounts[0] + 1]
        assert read["anything"][customer] == {"seen": {last.amounts[0]}}
    pairs = Counter((c, r) for c, r, _ in ROWS)
    assert committed_state(storage, job, "pairs", "count") == pairs
    seen = [n for units in committed_state(storage, job, "seen", "seen") for n in units]
    assert sorted(seen) == [a for _, _, a in ROWS if a % 10 == 0]

"""Operator state that is too large for a manifest lies in files of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mainstay as ms
from mainstay.snapshot import units
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.manifest import Manifest
from mainstay.testing import rows, run
from mainstay.testing.inspect import latest_manifest

ROWS = 6000


class Remember(ms.Process):
    seen = ms.OperatorListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.add(row.n)
        return row


def build(env: ms.Environment) -> None:
    source = rows("n long", [(n,) for n in range(ROWS)], splits=3)
    env.source(source, uid="in").process(Remember(), "n long", uid="all").sink(
        ms.connectors.Memory(), uid="out"
    )


@pytest.fixture(autouse=True)
def small_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "MOST_IN_MANIFEST", 400)


@pytest.mark.parametrize("crashes", [0, 4])
def test_they_are_restored_from_there(crashes: int) -> None:
    result = run(build, parallelism=3, seed=11, crashes=crashes)
    assert sorted(n for part in result.state("all", "seen") for n in part) == list(range(ROWS))
    manifest = latest_manifest(result.storage)
    assert manifest is not None
    files = [file.path for file in manifest.files() if file.path.endswith(".units")]
    assert len(files) == 3
    assert {path for path in result.storage.list("state/all/") if path.endswith(".units")} >= set(
        files
    )


def test_retention_deletes_those_of_epochs_that_are_not_kept() -> None:
    result = run(build, parallelism=3, seed=11)
    epochs = read_history(result.storage).lineage_epochs()
    kept = [e for e in epochs if e.manifest.path in result.storage.list("epochs/")]
    stored = [path for path in result.storage.list("state/all/") if path.endswith(".units")]
    assert len(epochs) > len(kept)
    assert len(stored) <= 3 * len(kept)


def test_a_manifest_that_names_such_files_says_so_in_its_format() -> None:
    result = run(build, parallelism=3, seed=11)
    place = read_history(result.storage).latest_epoch
    assert place is not None
    data = result.storage.read(place.manifest.path)
    assert json.loads(data)["format"] == 4
    (state,) = {s.name for s in Manifest.from_bytes(data).operators["all"].states}
    assert state == "seen"

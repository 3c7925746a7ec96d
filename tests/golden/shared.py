"""A snapshot in which operators share files: ``python -m tests.golden.shared DIRECTORY`` writes it.

It is of the job of ``key_groups.py``, of an epoch in which segments came together.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import latest_manifest
from mainstay.testing.settings import SimulationSettings
from tests.golden.key_groups import simulate


def write(directory: Path) -> None:
    snapshot = directory / "shared-snapshot-v8"
    snapshot.mkdir(parents=True)
    storage = open_storage(str(snapshot))
    simulate(storage, 2, SimulationSettings(stop_after_epochs=2), seed=5)
    manifest = latest_manifest(storage)
    assert manifest is not None
    assert any(file.is_shared for file in manifest.files())


if __name__ == "__main__":
    write(Path(sys.argv[1]))

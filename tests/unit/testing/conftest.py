"""What the tests of the runner share."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from mainstay.runtime.options import SnapshotOptions
from mainstay.testing import SimulationSettings, run


@pytest.fixture
def epochs_and_crashes_come_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """These jobs take some hundred steps: crashes are to come after epochs but before the end."""
    module = sys.modules[run.__module__]
    monkeypatch.setattr(
        module, "SimulationSettings", partial(SimulationSettings, crash_within_steps=300)
    )
    monkeypatch.setattr(
        module, "SnapshotOptions", lambda every_s, **more: SnapshotOptions(every_s=0.01, **more)
    )

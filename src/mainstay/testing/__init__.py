"""Testing jobs: the simulation drive, and what most tests need: run, rows, and what stands between
rows."""

from mainstay.testing.elements import LAST, Watermark, advance_clock, crash, idle, snapshot
from mainstay.testing.pending import PendingTimer
from mainstay.testing.processes import SimulatedClock
from mainstay.testing.result import Result
from mainstay.testing.run import rows, run
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

__all__ = [
    "LAST",
    "PendingTimer",
    "Result",
    "SimulatedClock",
    "Simulation",
    "SimulationSettings",
    "Watermark",
    "advance_clock",
    "crash",
    "idle",
    "rows",
    "run",
    "snapshot",
]

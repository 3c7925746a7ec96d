"""Testing jobs: the simulation drive, and the two functions most tests need."""

from mainstay.testing.processes import SimulatedClock
from mainstay.testing.run import Result, rows, run
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

__all__ = ["Result", "SimulatedClock", "Simulation", "SimulationSettings", "rows", "run"]

"""Testing jobs: the simulation drive, and the two functions most tests need."""

from mainstay.testing.run import Result, rows, run
from mainstay.testing.simulation import Simulation, SimulationSettings

__all__ = ["Result", "Simulation", "SimulationSettings", "rows", "run"]

"""Testing jobs: the simulation drive, and the two functions most tests need."""

from mainstay.testing.run import Result, rows, run
from mainstay.testing.simulation import SimulatedClock, Simulation, SimulationSettings

__all__ = ["Result", "SimulatedClock", "Simulation", "SimulationSettings", "rows", "run"]

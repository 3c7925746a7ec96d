"""Graphs run in the simulation, whose objects are seldom looked at for cycles."""

from tests.simulation.conftest import seldom_collected as seldom_collected

"""Graphs run in the simulation, as its own tests do."""

from __future__ import annotations

from tests.simulation.conftest import seldom_collected

__all__ = ["seldom_collected"]

"""How planted bugs are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Plant = Callable[[], Iterator[None]]


def planting() -> tuple[dict[str, Callable[[], Any]], Callable[[Plant], Plant]]:
    """A new register of planted bugs by name, and the decorator that fills it."""
    planted: dict[str, Callable[[], Any]] = {}

    def mutation(plant: Plant) -> Plant:
        """Register a planted bug under its name, read as a sentence."""
        planted[plant.__name__.replace("_", " ")] = contextmanager(plant)
        return plant

    return planted, mutation

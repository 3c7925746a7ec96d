"""How planted bugs are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

Plant = Callable[[], Iterator[None]]


def each_step(steps: Iterator[None], owner: Any, name: str, wrong: Any) -> Iterator[None]:
    """Do steps while something is patched. Between them it is not: others do theirs then, and
    a patch that is taken back after a later one would stay."""
    while True:
        with patch.object(owner, name, wrong):
            try:
                next(steps)
            except StopIteration:
                return
        yield


def planting() -> tuple[dict[str, Callable[[], Any]], Callable[[Plant], Plant]]:
    """A new register of planted bugs by name, and the decorator that fills it."""
    planted: dict[str, Callable[[], Any]] = {}

    def mutation(plant: Plant) -> Plant:
        """Register a planted bug under its name, read as a sentence."""
        planted[plant.__name__.replace("_", " ")] = contextmanager(plant)
        return plant

    return planted, mutation

"""Plays seeds one after the other, and names the one that fails.

Every test has a fixed list of seeds. The first of them are played by ``make test``, all of them by
``make soak``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation import noticing
from tests.simulation.checks import check
from tests.simulation.playing import play
from tests.simulation.scenarios import Scenario, briefly, drawn


def in_chunks(count: int, chunk: int, *, suite: int) -> list[Any]:
    """The first seed of each chunk of a list; those from ``suite`` on are left to the soak."""
    return [
        pytest.param(first, marks=pytest.mark.soak if first >= suite else ())
        for first in range(0, count, chunk)
    ]


def check_seeds(scenario_of: Callable[[int], Scenario], first: int, count: int) -> None:
    """Play as many seeds, each with the backends it draws, and name the one that fails."""
    for seed in range(first, first + count):
        try:
            check(play(drawn(scenario_of(seed))))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def check_many(scenario_of: Callable[[int], Scenario], seeds: range) -> None:
    """The same for a search over many seeds: most of them have few rows."""
    check_seeds(lambda seed: briefly(scenario_of(seed)), seeds.start, len(seeds))


def check_seed(scenario_of: Callable[[int], Scenario], seed: int) -> None:
    """Play one seed as it is, and name it if it fails."""
    try:
        check(play(scenario_of(seed)))
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def is_noticed(scenario_of: Callable[[int], Scenario], within: int) -> bool:
    """Whether a seed fails: a bug has been planted, and should not go unnoticed."""
    return noticing.is_noticed(lambda seed: check(play(scenario_of(seed))), within)

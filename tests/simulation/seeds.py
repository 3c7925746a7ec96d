"""Plays seeds one after the other, and names the one that fails.

Every test has a fixed list of seeds. The first of them are played by ``make test``, most of these
with few rows; all of them are played by ``make soak``, as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Chunk:
    """Seeds of a fixed list, one after the other."""

    first: int
    count: int
    is_brief: bool


def fixed(count: int, chunk: int, *, suite: int) -> list[Any]:
    """A list in chunks: the suite plays those before ``suite`` in brief, the soak all."""
    brief = [
        pytest.param(Chunk(first, chunk, is_brief=True), id=str(first))
        for first in range(0, suite, chunk)
    ]
    whole = [
        pytest.param(
            Chunk(first, chunk, is_brief=False), id=f"{first}-whole", marks=pytest.mark.soak
        )
        for first in range(0, count, chunk)
    ]
    return brief + whole


def check_fixed(scenario_of: Callable[[int], Scenario], chunk: Chunk) -> None:
    """Play a chunk of a fixed list."""
    if chunk.is_brief:
        check_many(scenario_of, range(chunk.first, chunk.first + chunk.count))
    else:
        check_seeds(scenario_of, chunk.first, chunk.count)


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

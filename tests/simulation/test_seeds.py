"""A fixed list of seeds: graphs, parallelism, modes, crashes, rescales, storage faults.

A seed that fails is replayed with::

    python -m tests.simulation.replay SEED
"""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import Scenario, drawn
from tests.simulation.seeds import Chunk, check_fixed, check_many, fixed
from tests.simulation.shares import soaked

SEEDS = 140
CHUNK = 10


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=30))
def test_every_input_counts_exactly_once_whatever_a_seed_does(chunk: Chunk) -> None:
    check_fixed(Scenario.of, chunk)


@pytest.mark.parametrize("seeds", soaked("seeds", SEEDS))
def test_every_input_counts_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.of, seeds)


def test_the_fixed_seeds_cover_what_they_should() -> None:
    scenarios = [drawn(Scenario.of(seed)) for seed in range(SEEDS)]
    assert {s.graph for s in scenarios} == {
        "chain",
        "fan_in",
        "diamond",
        "two_shuffles",
        "broadcast_side",
        "aggregates",
    }
    assert {s.mode for s in scenarios} == {"exactly_once", "at_least_once"}
    assert {s.parallelism for s in scenarios} == {1, 2, 3, 4, 5}
    assert sum(s.settings.crashes > 0 for s in scenarios) > SEEDS / 2
    assert sum(s.rescaled_to is not None for s in scenarios) > SEEDS / 5
    asked = [s.settings for s in scenarios]
    assert sum(s.savepoints > 0 and s.crashes > 0 for s in asked) > SEEDS / 5
    assert sum(bool(s.rescales) and s.crashes > 0 for s in asked) > SEEDS / 5
    stops = [s for s in asked if s.stop_at_step is not None]
    assert {(s.stop_with_savepoint, s.drain) for s in stops if s.crashes} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }
    assert {(s.puts_off, s.global_sink) for s in scenarios} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }
    stores = [
        tuple(getattr(each, "protocol", type(each).__name__) for each in s.backends)
        for s in scenarios
    ]
    assert sum("MemoryRocksSettings" in each for each in stores) > SEEDS / 4
    external = {"logged", "prepared", "versioned"}
    assert sum(not external.isdisjoint(each) for each in stores) > SEEDS / 4
    assert len(set(stores)) == 13

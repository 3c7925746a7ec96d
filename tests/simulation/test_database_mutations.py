"""The simulation runs the RocksDB backend for real: bugs that are planted in it are found."""

from __future__ import annotations

import pytest

from tests.simulation.database_mutations import MUTATIONS
from tests.simulation.scenarios import Scenario, is_noticed

WITHIN = 500
NOTICED_BY = {
    "a checkpoint stands for segments that it does not hold": 2,
    "a checkpoint taken while a segment is absorbed": 2,
    "a list has elements that the database and memory have twice": 24,
    "a rescaled subtask reads too few files of a checkpoint": 2,
    "a restore forgets the segments after the checkpoint": 3,
    "a segment absorbed before it is durable": 0,
    "attempts store files of databases under the same names": 17,
    "segments absorbed out of order": 0,
    "the changes of a frozen segment are forgotten": 0,
    "what changes between checkpoints is stored once": 1,
}
"""A seed that is known to notice: it is tried first, so that the others need not be."""


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_the_rocksdb_backend_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        seeds = [NOTICED_BY.get(name, 0), *range(WITHIN)]
        assert is_noticed(Scenario.in_databases, seeds), f"no seed notices that {name}"

"""The simulation runs the RocksDB backend for real: bugs that are planted in it are found."""

from __future__ import annotations

import pytest

from tests.simulation.database_mutations import MUTATIONS
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import is_noticed

WITHIN = 500


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_the_rocksdb_backend_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(Scenario.in_databases, WITHIN), f"no seed notices that {name}"

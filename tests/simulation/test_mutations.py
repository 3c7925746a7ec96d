"""The simulation can fail: every bug that is planted is found within five hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.scenarios import Scenario, is_noticed

WITHIN = 500
NOTICED_BY = {
    "what is left of a slice forgotten": 6,
    "rows that a source took back are not read again": 4,
    "an aborted epochs segment dropped": 1,
    "a marker overtakes what is left of a slice": 7,
    "a file deleted on abort": 1,
    "a finished source stops answering": 8,
    "a global sink committed when the manifest is written": 221,
    "a handle forgotten when its epoch is given up": 1,
    "a marker overtakes rows": 16,
    "a rescaled subtask reads foreign key groups": 3,
    "a restored job builds on the files of the savepoint": 7,
    "a restored reader skips nothing": 1,
    "a segment applied twice": 8,
    "acknowledged before deferred work is done": 1,
    "an old attempts acknowledgement accepted": 7,
    "channel unblocked early": 18,
    "compaction loses the newest segment": 3,
    "deferred work done out of order": 1,
    "deferred work dropped when it fails": 1,
    "handles of a restored snapshot are forgotten": 1,
    "operator state not copied": 4,
    "restart does not wait for the claim under way": 199,
    "retention forgets that epochs share files": 2,
    "sink committed before the slot": 2,
    "snapshot taken before all markers": 0,
    "split notes taken at completion": 3,
    "the deferred part of a cut forgotten": 7,
    "the files of a savepoint are not pinned": 139,
    "the savepoint is forgotten while there is no epoch": 22,
    "the key group of a row follows from its namespace too": 4,
    "the slot tried for before the manifest is durable": 3,
}
"""A seed that is known to notice: it is tried first, so that the others need not be."""


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        seeds = [NOTICED_BY.get(name, 0), *range(WITHIN)]
        assert is_noticed(Scenario.of, seeds), f"no seed notices that {name}"

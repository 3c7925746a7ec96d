"""What a job that was drained, or has finished, goes on from when it is started again: nothing that
was emitted is emitted again, and what is late does not depend on who had which keys."""

from __future__ import annotations

import pytest

from mainstay.runtime.status import Status
from tests.simulation.ended_cases import JOBS, MOST_STOPS, check, ending
from tests.simulation.ended_mutations import MUTATIONS
from tests.simulation.noticing import is_noticed
from tests.simulation.shares import dealt

SEEDS = 2
DRAINED_AT_ONCE = 700009


@pytest.mark.parametrize("name", JOBS)
def test_a_job_goes_on_from_where_its_input_had_ended(name: str) -> None:
    first = SEEDS * list(JOBS).index(name)
    ends = [each for seed in range(first, first + SEEDS) for each in check(name, ending(seed))]
    late = [result for each in ends for result in each.found if result[0] == "late"]
    assert late or name == "timers", "no row was late, so nothing was seen"


def test_the_fixed_seeds_end_in_every_way() -> None:
    ends = [each for seed in (4, 5) for each in check("sessions", ending(seed))]
    statuses = {each.outcome.simulation.coordinator.status for each in ends}
    assert statuses == {Status.FINISHED, Status.STOPPED}


def test_a_job_that_is_drained_at_every_start_comes_to_its_end() -> None:
    """It was started again for ever, until memory was full."""
    assert len(check("sessions", ending(DRAINED_AT_ONCE))) > MOST_STOPS


@pytest.mark.parametrize(("name", "seeds"), dealt("ended", 0, list(JOBS)))
def test_jobs_go_on_from_where_their_input_had_ended_over_many_seeds(
    name: str, seeds: range
) -> None:
    for seed in seeds:
        check(name, ending(seed))


# ---------------------------------------------------------------- planted bugs

NOTICED_BY = {
    "a window that the end has emitted takes rows": "windows",
    "a session that the end has emitted takes rows": "sessions",
    "how far sessions have fired is not restored": "sessions",
    "the end of input is the end of time": "windows",
    "every subtask goes on from its own end": "windows",
    "the end of one subtask is the end of all": "windows",
    "how far moved key groups had come is stored by nobody": "sessions",
    "rows that a join let go at the end are there again": "interval join",
    "timers that the end has fired are set again": "timers",
    "a source tells the end again": "sessions",
}
"""Which job notices."""


@pytest.mark.mutation
@pytest.mark.parametrize("bug", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(bug: str) -> None:
    with MUTATIONS[bug]():
        assert is_noticed(lambda seed: check(NOTICED_BY[bug], ending(seed)), 200), bug

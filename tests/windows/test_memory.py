"""What timers and open sessions take in memory, beside the same in a dictionary of Python."""

from __future__ import annotations

import pytest

from benchmarks import sessions, timers

TIMERS = 10_000_000
SESSIONS = 1_000_000
MOST = 3
"""How many times as much as a dictionary."""

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("state", timers.STATES)
def test_ten_million_timers_take_a_few_times_a_dictionary_at_most(state: str) -> None:
    plain, ours = (
        timers.in_a_process(case, state, TIMERS)["bytes"] for case in ("a dictionary", "heap")
    )
    assert ours <= MOST * plain


def test_a_million_open_sessions_take_a_few_times_a_dictionary_at_most() -> None:
    batches = list(sessions.batches_of(SESSIONS))
    ours = sessions.bytes_of_open(SESSIONS, sessions.Opened(), batches)
    assert ours <= MOST * sessions.bytes_in_dictionary(SESSIONS)

"""Windows through crashes and rescales; bugs that are planted in them are found."""

from __future__ import annotations

import pytest

from tests.simulation.noticing import is_noticed
from tests.windows.mutations import MUTATIONS
from tests.windows.scenario import check, check_in_between, check_moved

SEEDS = 3
WITHIN = 30
NOTICED_BY = {
    "a pane is dropped before it is emitted": check_in_between,
    "a window may be cut while it is emitted": check_in_between,
    "windows fire by subtask and not by key group": check_moved,
}
"""Bugs that show only where a cut is in between, or where key-groups move."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_neither_crashes_nor_rescales_nor_overtaking_markers_change_windows(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cut_may_come_between_any_two_windows(seed: int) -> None:
    check_in_between(seed)


def test_key_groups_that_have_not_come_equally_far_may_meet() -> None:
    check_moved(15)


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_windows_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(NOTICED_BY.get(name, check), WITHIN), f"no seed notices that {name}"

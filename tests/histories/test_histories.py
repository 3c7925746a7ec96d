"""Every backend holds what plain dictionaries hold, whatever happens to it and from whichever epoch
it goes on."""

from __future__ import annotations

import os

import pytest

from tests.histories.defects import DEFECTS, HISTORIES
from tests.histories.histories import check_seed, play
from tests.simulation import noticing

SUITE, CHUNK = 120, 40
SEARCHED = 10 * int(os.environ.get("MAINSTAY_SEEDS", "1000"))


@pytest.mark.parametrize("first", range(0, SUITE, CHUNK))
def test_backends_hold_what_dictionaries_hold_over_random_histories(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_seed(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SUITE, SUITE + SEARCHED, 500))
def test_backends_hold_what_dictionaries_hold_over_many_histories(first: int) -> None:
    for seed in range(first, first + 500):
        check_seed(seed)


@pytest.mark.parametrize("name", HISTORIES)
def test_histories_of_planted_defects_are_right_without_them(name: str) -> None:
    play(HISTORIES[name])


@pytest.mark.mutation
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_noticed(defect: str) -> None:
    def check(seed: int) -> None:
        if defect in HISTORIES:
            play(HISTORIES[defect])
        else:
            check_seed(seed)

    with DEFECTS[defect]():
        assert noticing.is_noticed(check, 400)

"""Every backend holds what plain dictionaries hold, whatever happens to it and from whichever epoch
it goes on."""

from __future__ import annotations

import pytest

from tests.histories.defects import DEFECTS, HISTORIES
from tests.histories.histories import History, Step, check_seed, play
from tests.histories.programs import Declared
from tests.simulation import noticing
from tests.simulation.shares import soaked

SUITE, CHUNK = 120, 40


@pytest.mark.parametrize("first", range(0, SUITE, CHUNK))
def test_backends_hold_what_dictionaries_hold_over_random_histories(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_seed(seed)


@pytest.mark.parametrize("seeds", soaked("histories", SUITE))
def test_backends_hold_what_dictionaries_hold_over_many_histories(seeds: range) -> None:
    for seed in seeds:
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


@pytest.mark.parametrize("backend", ["external-in-memory", "versioned-in-memory"])
def test_a_job_goes_on_with_its_tables_though_its_first_subtask_has_no_state(backend: str) -> None:
    program = {"s0": Declared("value", "long")}
    for key in "abcd":
        steps: list[Step] = []
        for value in range(3):
            steps += [("set", key, "s0", value), ("snapshot",)]
        steps += [("compact", False), ("snapshot",), ("restart", -1, 4, backend, program)]
        play(History("string", backend, program, steps))

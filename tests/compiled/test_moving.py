"""Drawn functions in whole jobs that crash, stop, are rescaled and go on elsewhere: they give, keep
and fail with what they do as ordinary Python, row after row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.compiled.moving import check_moving
from tests.simulation.compiled_mutations import MUTATIONS
from tests.simulation.shares import beginning, soaked

IN_THE_SUITE = 16
WITH_NUMBA = (3, 7)
WITH_NUMBA_IN_THE_SOAK = 50
WITHIN = 100


def test_a_drawn_function_is_the_same_in_a_job_that_moves(tmp_path: Path) -> None:
    ends = Counter(check_moving(seed, tmp_path) for seed in range(IN_THE_SUITE))
    # Or they would not say much.
    assert ends["rows"] >= IN_THE_SUITE // 3, ends
    assert ends["failed"], ends


@pytest.mark.parametrize("seed", WITH_NUMBA)
def test_a_drawn_function_is_the_same_as_machine_code_in_a_job_that_moves(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert with_numba(seed, tmp_path, monkeypatch) == "rows"
    assert list((tmp_path / "kernels").rglob("*.nbc"))


@pytest.mark.soak
def test_many_drawn_functions_are_the_same_as_machine_code_in_jobs_that_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = beginning(IN_THE_SUITE)
    ends = Counter(
        with_numba(seed, tmp_path, monkeypatch)
        for seed in range(first, first + WITH_NUMBA_IN_THE_SOAK)
    )
    assert ends["rows"] >= WITH_NUMBA_IN_THE_SOAK // 3, ends


def with_numba(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same with kernels that are machine code."""
    pytest.importorskip("numba")
    from mainstay.native.cache import FOLDER
    from mainstay.native.kernels import NumbaKernels, _kernel

    # What this process has compiled before is not compiled into the folder.
    _kernel.cache_clear()
    monkeypatch.setenv(FOLDER, str(folder / "kernels"))
    monkeypatch.setattr("mainstay.testing.simulation.InterpretedKernels", NumbaKernels)
    return check_moving(seed, folder)


@pytest.mark.parametrize("seeds", soaked("compiled jobs", IN_THE_SUITE))
def test_many_drawn_functions_are_the_same_in_jobs_that_move(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        check_moving(seed, tmp_path)


@pytest.mark.mutation
@pytest.mark.parametrize("bug", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(bug: str, tmp_path: Path) -> None:
    with MUTATIONS[bug]():
        assert any(_is_noticed(seed, tmp_path) for seed in range(WITHIN)), bug


def _is_noticed(seed: int, folder: Path) -> bool:
    try:
        check_moving(seed, folder)
    except AssertionError:
        return True
    return False

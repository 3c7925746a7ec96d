"""Functions drawn from seeds give what they give without ``compiled``, value for value and error
for error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.compiled.trials import trial
from tests.simulation.shares import soaked

AT_A_TIME = 50
IN_THE_SUITE = 200
WITH_NUMBA = (3, 12)


@pytest.mark.parametrize("first", range(0, IN_THE_SUITE, AT_A_TIME))
def test_a_drawn_function_is_the_same_when_compiled(first: int, tmp_path: Path) -> None:
    ends = Counter(trial(seed, tmp_path) for seed in range(first, first + AT_A_TIME))
    # Or they would not say much.
    assert ends["rows"] >= AT_A_TIME // 5, ends


@pytest.mark.parametrize("seed", WITH_NUMBA)
def test_a_drawn_function_is_the_same_as_machine_code(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    from mainstay.native.cache import FOLDER
    from mainstay.native.kernels import NumbaKernels

    monkeypatch.setenv(FOLDER, str(tmp_path / "kernels"))
    assert trial(seed, tmp_path, NumbaKernels()) == "rows"


@pytest.mark.parametrize("seeds", soaked("compiled functions", IN_THE_SUITE))
def test_many_drawn_functions_are_the_same_when_compiled(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        trial(seed, tmp_path)

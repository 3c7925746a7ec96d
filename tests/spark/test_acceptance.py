"""Spark's own tests of stateful processors as jobs on Spark: what each of our tests of them sees on
an operator alone, all of them see as branches of one job, which is stopped half-way and goes on
with more subtasks; and what a rescale keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.processors import test_apply_in_pandas_with_state, test_rescales, test_restarts
from tests.processors.acceptance import FILES, Ours
from tests.processors.slices import VARIANTS
from tests.spark.replaying import Branch, Replay, branches_of

# One process makes the branches, those that need no session included.
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TESTS = sorted(
    {
        test
        for tests in FILES.values()
        for counterpart in tests.values()
        if isinstance(counterpart, Ours)
        for test in counterpart.tests
        if test.startswith("tests/processors/")
    }
)
WAITS_S = 0.1
"""How long the branches of the suite wait at most for the machine's clock."""

_FOLDER = "tests/processors"
_JOBS = "it has jobs of its own, which the soak runs on Spark below"
_CLOCK = "the soak waits below for the machine's clock"
ELSEWHERE: Mapping[str, str] = {
    f"{_FOLDER}/test_apply_in_pandas_with_state.py::test_a_function_that_dies_now_and_then": _JOBS,
    f"{_FOLDER}/test_restarts.py::test_14_types_change_from_start_to_start": _JOBS,
    f"{_FOLDER}/test_restarts.py::test_15_what_loses_digits_is_refused": _JOBS,
    f"{_FOLDER}/test_restarts.py::test_16_fields_need_not_be_nullable": _JOBS,
    f"{_FOLDER}/test_restarts.py::test_2_a_query_goes_on": "the job of all branches goes on",
    f"{_FOLDER}/test_initial_state.py::test_31_another_operator_follows": "one follows each branch",
    f"{_FOLDER}/test_transform_with_state.py::test_29_what_has_expired_is_gone": _CLOCK,
    f"{_FOLDER}/test_transform_with_state.py::"
    "test_29_an_entry_that_is_not_written_again_expires_alone": _CLOCK,
    f"{_FOLDER}/test_transform_with_state.py::test_3_timers_of_the_wall_clock": "timers do not "
    "wait for rows in a job: test_3_timers_fire_while_nothing_comes",
    f"{_FOLDER}/test_tws_tester.py::test_processing_time_timers": "what it emits has the times of "
    "the test's clock; test_3_timers_fire_while_nothing_comes has timers of the machine's",
    f"{_FOLDER}/test_tws_tester.py::test_a_slice_without_rows_calls_nothing": "no rows, no slice",
    f"{_FOLDER}/test_tws_tester.py::test_states_are_preset": "it changes states behind the back "
    "of the processor; tests/spark/test_state_dataframes.py does so with savepoints",
    f"{_FOLDER}/test_values.py::test_18_19_frames_have_so_many_rows_and_bytes_at_most": "a setting "
    "of the session: tests/spark/test_processor_states.py has it",
}
"""What is not a branch of the job below, and where it is seen, or why not."""


@pytest.fixture(scope="module")
def branches() -> dict[str, list[Branch]]:
    """The operators of each test that a job can be given the same as."""
    return {test: [each for each in branches_of(test) if each.why_not is None] for test in TESTS}


@pytest.fixture(scope="module")
def replayed(
    spark: Any, branches: dict[str, list[Branch]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Counter[str]]:
    played = [each for some in branches.values() for each in some if each.waits_s <= WAITS_S]
    job = Replay(spark, tmp_path_factory.mktemp("replay"), played)
    return job.run({0: 1, 1: 2})


@pytest.mark.parametrize("test", [test for test in TESTS if test not in ELSEWHERE])
def test_a_job_on_spark_does_what_the_operator_does(
    test: str, branches: dict[str, list[Branch]], replayed: dict[str, Counter[str]]
) -> None:
    assert branches[test]
    for branch in branches[test]:
        assert replayed[branch.name] == branch.expected


def test_what_is_elsewhere_is_no_branch(branches: dict[str, list[Branch]]) -> None:
    assert set(TESTS) >= ELSEWHERE.keys()
    for test in ELSEWHERE:
        assert all(branch.waits_s > WAITS_S for branch in branches[test]), f"{test} is a branch"


# ---------------------------------------------------------------- rescales

RESCALES = [
    f"{_FOLDER}/test_rescales.py::{name}"
    for name in vars(test_rescales)
    if name.startswith("test_") and name != "test_13_timers_are_the_same_with_one_subtask"
]
"""All but one that is a simulated job; ``test_13_timers_outlast_slices`` has its processor here."""


@pytest.mark.parametrize(
    "backend",
    [
        test_rescales.heap,
        pytest.param(test_rescales.rocksdb, marks=pytest.mark.soak),
        pytest.param(test_rescales.postgres, marks=[pytest.mark.soak, pytest.mark.services]),
    ],
)
def test_d_a_job_on_spark_goes_on_with_more_subtasks_and_with_fewer(
    spark: Any, backend: Any, request: Any, tmp_path: Path
) -> None:
    given = {"backend": test_rescales.heap, "request": request}
    played = [each for test in RESCALES for each in branches_of(test, tmp_path, **given)]
    assert {each.name.partition("-")[0] for each in played} == {
        test.partition("::")[2] for test in RESCALES
    }
    (tmp_path / "job").mkdir()
    job = Replay(spark, tmp_path / "job", played, state=backend(request, tmp_path))
    found = job.run({0: 1, 1: 2, 2: 1})
    assert found == {branch.name: branch.expected for branch in played}


@pytest.mark.soak
def test_29_by_the_clock_of_the_machine(
    spark: Any, branches: dict[str, list[Branch]], tmp_path: Path
) -> None:
    played = [each for test, why in ELSEWHERE.items() if why == _CLOCK for each in branches[test]]
    found = Replay(spark, tmp_path, played).run({0: 1, 1: 1})
    assert found == {branch.name: branch.expected for branch in played}


@pytest.mark.soak
@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize(
    "test",
    [
        test_restarts.test_14_types_change_from_start_to_start,
        test_restarts.test_15_what_loses_digits_is_refused,
    ],
)
def test_restarts_on_spark(
    spark: Any, test: Any, how: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_restarts, "DRIVE", spark)
    test(how, tmp_path)


@pytest.mark.soak
def test_16_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_restarts, "DRIVE", spark)
    test_restarts.test_16_fields_need_not_be_nullable(tmp_path)


@pytest.mark.soak
def test_a_function_that_dies_on_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_apply_in_pandas_with_state, "DRIVE", spark)
    test_apply_in_pandas_with_state.test_a_function_that_dies_now_and_then(tmp_path)

"""Spark's own tests of stateful processors as jobs on Spark: what each of our tests of them sees on
an operator alone, all of them see as branches of one job, which is stopped half-way and goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.processors.acceptance import FILES, Ours
from tests.spark.replaying import Branch, Replay, branches_of, why_not

pytestmark = pytest.mark.spark

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


@pytest.fixture(scope="module")
def branches() -> dict[str, list[Branch]]:
    return {test: list(branches_of(test)) for test in TESTS}


@pytest.fixture(scope="module")
def replayed(
    spark: Any, branches: dict[str, list[Branch]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Counter[Any]]:
    played = [each for some in branches.values() for each in some if not why_not(each.slices)]
    job = Replay(spark, tmp_path_factory.mktemp("replay"), played)
    return job.run(restart_after=1, parallelism=(1, 2))


@pytest.mark.parametrize("test", TESTS)
def test_a_job_on_spark_does_what_the_operator_does(
    test: str, branches: dict[str, list[Branch]], replayed: dict[str, Counter[Any]]
) -> None:
    for branch in branches[test]:
        if why_not(branch.slices) is None:
            assert replayed[branch.name] == branch.expected

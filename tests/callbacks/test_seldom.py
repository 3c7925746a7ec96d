"""Callbacks that are called seldom raise as the others do: what is told, and that nothing is lost.

A job goes on with its state turned into another type by the author's function, and epochs are given
up in the simulation, where storage fails.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import RestoreError
from mainstay.testing import rows, run
from tests.callbacks.conducts import ALWAYS, ERRORS, Conduct, Fault
from tests.callbacks.keyed_kinds import numbered
from tests.callbacks.plain_kinds import OUT
from tests.callbacks.rows import ROWS, SCHEMA
from tests.callbacks.seldom import GivenUp, migrated, upgraded

SEED = 5
"""One in which an epoch is given up."""
IN_SUITE = {"value", "exit", "speechless"}
CONDUCTS = [
    pytest.param(each, id=each.name, marks=() if each.name in IN_SUITE else pytest.mark.soak)
    for each in ERRORS
]


@pytest.mark.parametrize("conduct", CONDUCTS)
def test_a_migration_that_raises_is_told_and_the_mended_job_goes_on(
    conduct: Conduct, tmp_path: Path
) -> None:
    seen = upgraded(tmp_path, migrated(Fault(str(tmp_path), conduct.name, ALWAYS)), 1)
    assert (seen.status, seen.attempts) == ("failed", 1)
    assert isinstance(seen.error, RestoreError)
    for each in (
        "'subject.count'",
        "the migration of",
        conduct.error,
        conduct.words,
        "own_migrate",
    ):
        assert each in str(seen.error), seen.error
    mended = upgraded(tmp_path, migrated(Fault(str(tmp_path), conduct.name, 0)), 0)
    wanted = Counter(numbered(ROWS))
    assert mended.status == "finished"
    assert mended.rows == Counter(row for row in wanted if row[1] > 10)


def given_up(fault: Fault) -> Any:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows(SCHEMA, ROWS), uid="in").key_by("k")
        stream.process(GivenUp(fault), OUT, uid="subject").sink(ms.connectors.Memory(), uid="out")

    return run(build, seed=SEED, storage_faults=4)


# The simulation is in the thread to which Ctrl-C goes.
@pytest.mark.parametrize("conduct", [each for each in CONDUCTS if each.id != "interrupt"])
def test_what_is_raised_where_an_epoch_was_given_up_loses_nothing(
    conduct: Conduct, tmp_path: Path
) -> None:
    result = given_up(Fault(str(tmp_path), conduct.name, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["0"], "no epoch was given up"
    assert sorted(result.output("out")) == sorted(numbered(ROWS))

"""Operator state through crashes: an element exists once, whatever is done with the list."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime.options import SnapshotOptions
from mainstay.testing import rows, run
from mainstay.testing.settings import SimulationSettings

VALUES = [(n,) for n in range(400)]
SPLITS = 6


class Adding(ms.Process):
    """Adds what it sees."""

    seen = ms.OperatorListState("long", "union")

    def process(self, row: Any, context: Any) -> Any:
        self.seen.add(row.n)
        return row


class Claiming(ms.Process):
    """Keeps, of all it is shown, what belongs to it by a rule of its own."""

    seen = ms.OperatorListState("long", "union")

    def open(self, context: Any) -> None:
        mine = [n for n in self.seen.get() if n % context.parallelism == context.subtask]
        self.seen.update(mine)

    def process(self, row: Any, context: Any) -> Any:
        self.seen.add(row.n)
        return row


class Rules(ms.Process):
    """The same list everywhere, written when it is opened for the first time."""

    rules = ms.OperatorListState("string", "broadcast")

    def open(self, context: Any) -> None:
        if not self.rules.get():
            self.rules.update(["a", "b"])

    def process(self, row: Any, context: Any) -> Any:
        return row


@pytest.fixture(autouse=True)
def _epochs_and_crashes_come_early(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[run.__module__]
    monkeypatch.setattr(
        module,
        "SnapshotOptions",
        lambda every_s, **more: SnapshotOptions(every_s=0.01, **more),
    )
    monkeypatch.setattr(
        module,
        "SimulationSettings",
        lambda **more: SimulationSettings(crash_within_steps=1500, **more),
    )


def state_of(function: Any, name: str, seed: int, mode: str) -> list[list[Any]]:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("n long", VALUES, splits=SPLITS), uid="in")
        stream.process(function, schema="n long", uid="f").sink(Memory(), uid="out")

    result = run(build, parallelism=3, seed=seed, crashes=4, mode=mode)
    assert len(result.attempts) > 1
    return result.state("f", name)  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
@pytest.mark.parametrize("function", [Adding(), Claiming()])
def test_an_element_of_a_union_exists_once_however_often_the_job_restarts(
    function: Any, mode: str
) -> None:
    expected = Counter(n for (n,) in VALUES)
    for seed in range(5):
        lists = state_of(function, "seen", seed, mode)
        assert Counter(n for each in lists for n in each) == expected


def test_a_broadcast_list_is_the_same_however_often_the_job_restarts() -> None:
    for seed in range(5):
        assert state_of(Rules(), "rules", seed, "exactly_once") == [["a", "b"]] * 3

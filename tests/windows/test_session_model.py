"""Whatever happens to a job, its sessions are what a plain loop over the same rows finds."""

from __future__ import annotations

import random
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.testing import crash, idle, rows, run, snapshot
from tests.simulation.noticing import is_noticed
from tests.windows.kit import CLICKS, click, clicks, s, shown, until
from tests.windows.session_bugs import BUGS
from tests.windows.test_model import drawn, script

GAPS = {"fixed": 0.8, "of rows": None}
AGGREGATES = {
    "n": ms.count(),
    "total": ms.sum("amount"),
    "low": ms.min("amount"),
    "users": ms.max("user"),
}


def job(gap: str, **how: Any) -> Any:
    def build(env: ms.Environment) -> None:
        both = clicks(env).union(clicks(env, "more"))
        length = GAPS[gap]
        session = ms.session(lambda row: 0.2 + (row.amount or 0) / 4) if length is None else None
        keyed = both.key_by("user").window(session or ms.session(length), **how)
        found = keyed.aggregate(**AGGREGATES, uid="windows")
        found.sink(Memory(), uid="out")
        found.late.sink(Memory(), uid="late")

    return build


class Model:
    """Sessions as the words of their definition say, a row and a watermark at a time."""

    def __init__(self, gap: str, lateness: float = 0) -> None:
        self.gap = GAPS[gap]
        self.lateness = round(lateness * 1_000_000)
        self.now = -(1 << 62)
        self.open: dict[Any, list[tuple[int, int, list[Any]]]] = {}
        self.out: list[Any] = []
        self.late: list[Any] = []

    def take(self, row: tuple[Any, ...]) -> None:
        user, at, amount = row
        gap = 0.2 + (amount or 0) / 4 if self.gap is None else self.gap
        start = round((at - s(0)).total_seconds() * 1_000_000)
        end = start + round(gap * 1_000_000)
        sessions = self.open.setdefault(user, [])
        touched = [each for each in sessions if each[0] <= end and start <= each[1]]
        if not touched and end + self.lateness <= self.now:
            self.late.append(row)
            return
        merged = (
            min([start, *(each[0] for each in touched)]),
            max([end, *(each[1] for each in touched)]),
            [amount, *(each for session in touched for each in session[2])],
        )
        self.open[user] = [each for each in sessions if each not in touched] + [merged]

    def until(self, now: int) -> None:
        self.now = max(self.now, now)
        for user, sessions in self.open.items():
            for start, end, amounts in sessions:
                if end + self.lateness <= self.now:
                    known = [amount for amount in amounts if amount is not None]
                    bounds = (start / 1e6, end / 1e6)
                    total, low = (sum(known), min(known)) if known else (None, None)
                    self.out.append((user, *bounds, len(amounts), total, low, user))
            self.open[user] = [each for each in sessions if each[1] + self.lateness > self.now]


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("seed", range(3))
def test_crashes_and_rescales_change_nothing(gap: str, seed: int) -> None:
    given = drawn(seed)
    # So long that no row is late, whatever the order in which the sources are read.
    result = run(
        job(gap, lateness="1 day"),
        {
            "clicks": rows(CLICKS, given[::2], splits=2),
            "more": rows(CLICKS, given[1::2], splits=2),
        },
        parallelism=1 + seed % 2,
        seed=seed,
        crashes=2,
        rescales=[3, 2],
        mode=["exactly_once", "unaligned"][seed % 2],
    )
    model = Model(gap)
    for row in given:
        model.take(row)
    model.until(1 << 62)
    assert result.output("late") == []
    assert sorted(shown(result.output("out")), key=repr) == sorted(model.out, key=repr)
    assert result.state("windows", "sessions") == {}


def check(gap: str, lateness: float, elements: list[Any], parallelism: int, seed: int) -> None:
    """A run emits what the model does."""
    model = Model(gap, lateness)
    times: dict[str, Any] = {"clicks": None, "more": None}
    for name, element in elements:
        if isinstance(element, tuple):
            model.take(element)
        elif element not in (snapshot(), crash()):
            times[name] = element
            active = [each for each in times.values() if each != idle()]
            if active and all(each is not None for each in active):
                model.until(min(each.time_us for each in active))
    model.until(1 << 62)
    result = run(job(gap, lateness=lateness), elements, parallelism=parallelism, seed=seed)
    assert sorted(shown(result.output("out")), key=repr) == sorted(model.out, key=repr)
    assert sorted(result.output("late"), key=repr) == sorted(model.late, key=repr)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("lateness", [0, 2.5])
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("seed", range(3))
def test_lateness_is_what_its_definition_says(gap: str, lateness: float, seed: int) -> None:
    for parallelism in (1, 3):
        check(gap, lateness, script(seed), parallelism, seed)


# ---------------------------------------------------------------- planted bugs


def on_a_grid(seed: int) -> list[Any]:
    """Rows of few keys whose distance often is the gap; epochs and crashes; hardly any order."""
    random_ = random.Random(f"grid-{seed}")
    elements: list[Any] = []
    for n in range(60):
        at = n * 0.3 + 0.4 * random_.randrange(-8, 8)
        row = click(random_.choice(["a", "b"]), round(at / 0.4) * 0.4, random_.randrange(5))
        elements.append(("clicks", row))
        if random_.random() < 0.3:
            elements += [(name, until(round(n * 0.3 - 1, 3))) for name in ("clicks", "more")]
        if random_.random() < 0.3:
            elements.append(("clicks", snapshot()))
        if random_.random() < 0.05:
            elements.append(("clicks", crash()))
    return elements


SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_planted_bug_the_model_is_met(seed: int) -> None:
    check("fixed", 1, on_a_grid(seed), 1 + seed % 2, seed)


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    def check_seed(seed: int) -> None:
        check("fixed", 1, on_a_grid(seed), 1 + seed % 2, seed)

    with BUGS[bug]():
        assert is_noticed(check_seed, 100), bug

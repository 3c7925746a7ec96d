"""Whatever happens to a job, its windows hold what a plain loop over the same rows finds."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.plan.combining import COMBINE
from mainstay.runtime.windows import FixedWindows
from mainstay.testing import Result, crash, idle, rows, run, snapshot
from tests.windows.kit import CLICKS, click, clicks, s, shown
from tests.windows.model import Model, script

WINDOWS = {
    "tumbling": ms.tumbling("4s", offset="-1s"),
    "sliding": ms.sliding("6s", every="2s"),
    "uneven": ms.sliding("5s", every="3s", offset="1s"),
    "gaps": ms.sliding("2s", every="5s"),
    "cumulating": ms.cumulating("8s", every="2s"),
}
AGGREGATES = {
    "sums": {"n": ms.count(), "total": ms.sum("amount")},
    "all": {
        "n": ms.count("amount"),
        "total": ms.sum("amount"),
        "low": ms.min("amount"),
        "high": ms.max("amount"),
        "mean": ms.mean("amount"),
        "users": ms.max("user"),
    },
}


def job(window: Any, aggregates: str, reads_late: bool, delay: str = "0s", **how: Any) -> Any:
    def build(env: ms.Environment) -> None:
        both = clicks(env, delay=delay).union(clicks(env, "more", delay=delay))
        found = both.key_by("user").window(window, **how)
        result = found.aggregate(**AGGREGATES[aggregates], uid="windows")
        result.sink(Memory(), uid="out")
        if reads_late:
            result.late.sink(Memory(), uid="late")

    return build


def expected(window: Any, aggregates: str, given: list[tuple[Any, ...]]) -> list[Any]:
    """What a plain loop makes of the rows, none of which is late."""
    windows: FixedWindows = window.fixed()
    groups: dict[Any, list[Any]] = defaultdict(list)
    for user, at, amount in given:
        time = round((at - s(0)).total_seconds() * 1_000_000)
        end = windows.slice_end(time)
        last = windows.last_end(end)
        for each in range(windows.first_end(end), last + 1, windows.every_us):
            groups[user, windows.start(each) / 1e6, each / 1e6].append(amount)
    found = []
    for key, amounts in groups.items():
        known = [amount for amount in amounts if amount is not None]
        total = sum(known) if known else None
        if aggregates == "sums":
            found.append((*key, len(amounts), total))
            continue
        found.append(
            (
                *key,
                len(known),
                total,
                min(known, default=None),
                max(known, default=None),
                sum(known) / len(known) if known else None,
                key[0],
            )
        )
    return sorted(found, key=repr)


def drawn(seed: int, count: int = 120) -> list[tuple[Any, ...]]:
    random_ = random.Random(seed)
    start = random_.choice([-30, 0, 1000])
    return [
        click(
            random_.choice(["a", "b", "c", "d", None]),
            start + n / 4 + random_.uniform(-1, 1),
            random_.choice([None, *range(9)]),
        )
        for n in range(count)
    ]


def has_combiner(result: Result) -> bool:
    return any(operator.uid.startswith(COMBINE) for _, operator in result.job.operators())


@pytest.mark.parametrize("aggregates", AGGREGATES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", range(2))
def test_crashes_and_rescales_change_nothing(window: str, aggregates: str, seed: int) -> None:
    given = drawn(seed)
    mode = ["exactly_once", "unaligned"][seed % 2]
    # The sources are read beside each other: no row is late by the other one's, in no window.
    delay = f"{len(given) / 4:.0f}s"
    result = run(
        job(WINDOWS[window], aggregates, reads_late=seed == 1, delay=delay),
        {
            "clicks": rows(CLICKS, given[: len(given) // 2], splits=2),
            "more": rows(CLICKS, given[len(given) // 2 :], splits=2),
        },
        parallelism=1 + seed % 2,
        seed=seed,
        crashes=2,
        rescales=[3, 2],
        mode=mode,
    )
    found = sorted(shown(result.output("out")), key=repr)
    assert result.state("windows", "panes") == {}
    assert seed != 1 or not result.output("late")
    keys = [row[:3] for row in found]
    assert len(keys) == len(set(keys)), "a window was emitted twice"
    taken = result.simulation
    assert taken.coordinator.error is None
    if all(row[1] is not None for row in given):
        assert found == expected(WINDOWS[window], aggregates, given)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", range(2))
def test_crashes_and_rescales_change_nothing_where_rows_are_combined(
    window: str, seed: int
) -> None:
    given = drawn(seed)
    result = run(
        # The sources are read beside each other: no row is late by the other one's.
        job(WINDOWS[window], "all", reads_late=False, delay=f"{len(given) / 4:.0f}s"),
        {
            "clicks": rows(CLICKS, given[: len(given) // 2], splits=2),
            "more": rows(CLICKS, given[len(given) // 2 :], splits=2),
        },
        parallelism=2,
        seed=seed,
        crashes=2,
        rescales=[1, 3],
        mode=["exactly_once", "unaligned"][seed % 2],
        read_late=False,
    )
    assert has_combiner(result)
    assert sorted(shown(result.output("out")), key=repr) == expected(WINDOWS[window], "all", given)
    assert result.state("windows", "panes") == {}


@pytest.mark.parametrize("lateness", [0, 2.5])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", range(2))
def test_lateness_is_what_its_definition_says(window: str, lateness: float, seed: int) -> None:
    elements = script(seed)
    model = Model(WINDOWS[window], lateness)
    times: dict[str, Any] = {"clicks": None, "more": None}
    for name, element in elements:
        if isinstance(element, tuple):
            model.take(element)
        elif element in (snapshot(), crash()):
            continue
        else:
            times[name] = element
            active = [each for each in times.values() if each != idle()]
            if active and all(each is not None for each in active):
                model.until(min(each.time_us for each in active))
    model.until(1 << 62)
    for reads_late, parallelism in ((True, 1), (True, 3), (False, 2)):
        build = job(WINDOWS[window], "sums", reads_late, lateness=lateness)
        # Where nobody reads late rows, the others are combined before they are sent.
        result = run(build, elements, parallelism=parallelism, seed=seed, read_late=reads_late)
        assert has_combiner(result) != reads_late
        assert sorted(shown(result.output("out")), key=repr) == sorted(model.out, key=repr)
        if reads_late:
            late = sorted(result.output("late"), key=repr)
            assert late == sorted(model.late, key=repr)

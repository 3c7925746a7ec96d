"""Windows of windows through crashes and rescales, beside what their definition says."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime import watermarks
from mainstay.runtime.operators import window as operator
from mainstay.testing import crash, idle, rows, run, snapshot
from tests.windows.kit import CLICKS, click, clicks, shown
from tests.windows.model import Model, script

SMALL, LARGE = ms.sliding("6s", every="2s"), ms.tumbling("8s")
LATENESS = 2.5


def build(env: ms.Environment) -> None:
    both = clicks(env).union(clicks(env, "more"))
    keyed = both.key_by("user").window(SMALL, lateness=LATENESS)
    found = keyed.aggregate(n=ms.count(), total=ms.sum("amount"), uid="small")
    found.sink(Memory(), uid="out")
    found.late.sink(Memory(), uid="late")
    # What is emitted after its lateness is behind event time by as much.
    large = found.key_by("user").window(LARGE, lateness=LATENESS)
    large.aggregate(windows=ms.count(), total=ms.sum("total"), uid="large").sink(
        Memory(), uid="large-out"
    )


def expected(elements: list[Any]) -> Model:
    """What a job has to give that is told these elements."""
    model = Model(SMALL, LATENESS)
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
    return model


def large_of(rows: list[Any]) -> list[Any]:
    """The large windows of small ones, none of which is late."""
    groups: dict[Any, list[int]] = {}
    for user, _, end, _, total in rows:
        start = (end - 1e-6) // 8 * 8
        groups.setdefault((user, start, start + 8), []).append(total)
    return [(*key, len(totals), sum(totals)) for key, totals in groups.items()]


def check(seed: int) -> None:
    """Run it under a seed; raises where the output is not what it should be."""
    elements = script(seed)
    model = expected(elements)
    with patch.object(operator, "EMITTED_ROWS", 1):
        result = run(
            build,
            elements,
            parallelism=1 + seed % 3,
            seed=seed,
            crashes=2,
            rescales=[3, 2] if seed % 2 else [],
            mode=["exactly_once", "unaligned"][seed // 2 % 2],
        )
    found = {uid: sorted(shown(result.output(uid)), key=repr) for uid in ("out", "large-out")}
    assert found["out"] == sorted(model.out, key=repr)
    assert found["large-out"] == sorted(large_of(model.out), key=repr)
    assert sorted(result.output("late"), key=repr) == sorted(model.late, key=repr)
    for uid in ("small", "large"):
        assert result.state(uid, "panes") == {}


MANY = [click(f"user {n % 5}", n / 8, n) for n in range(160)]


def check_in_between(seed: int) -> None:
    """The same for rows that are read as fast as they come, with epochs that cut whatever is under
    way: most of them while windows are emitted."""
    _check_many(seed, crashes=3, mode=["exactly_once", "unaligned"][seed % 2])


def check_moved(seed: int) -> None:
    """The same with rescales, where markers overtake watermarks: subtasks have come to different
    times at a cut, and their key-groups meet in one."""
    _check_many(seed, crashes=2, rescales=[3, 1], mode="unaligned")


def _check_many(seed: int, **how: Any) -> None:
    with (
        patch.object(operator, "EMITTED_ROWS", 1),
        patch.object(watermarks, "EVERY_S", 0.0),
    ):
        result = run(
            build,
            {"clicks": rows(CLICKS, MANY), "more": rows(CLICKS, [])},
            parallelism=2,
            seed=seed,
            **how,
        )
    model = expected([("clicks", row) for row in MANY])
    assert sorted(shown(result.output("out")), key=repr) == sorted(model.out, key=repr)
    assert result.output("late") == []
    assert result.state("small", "panes") == {}

"""Windows of a number of rows: which rows are in which, and what is left at the end."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import GraphError
from mainstay.testing import crash, run, snapshot

pytestmark = pytest.mark.usefixtures("backend")


def job(window: Any, **how: Any) -> Any:
    def build(env: ms.Environment) -> None:
        rows = env.source(Rows("user string, amount long", []), uid="in")
        found = rows.key_by("user").window(window, **how)
        found.aggregate(every=ms.collect("amount"), total=ms.sum("amount"), uid="windows").sink(
            Memory(), uid="out"
        )

    return build


def output(window: Any, elements: list[Any], **how: Any) -> list[Any]:
    return run(job(window), {"in": elements}, **how).output("out")


def windows(window: Any, amounts: list[int], *, one_by_one: bool = False) -> list[list[int]]:
    elements: list[Any] = []
    for amount in amounts:
        elements += [("a", amount), snapshot()] if one_by_one else [("a", amount)]
    found = output(window, elements, parallelism=1)
    assert all(sum(every) == total for _, every, total in found)
    return [every for _, every, _ in found]


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (ms.rows(1), [[0], [1], [2], [3], [4], [5], [6]]),
        (ms.rows(3), [[0, 1, 2], [3, 4, 5]]),
        (ms.rows(8), []),
        (ms.rows(3, every=1), [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]),
        (ms.rows(4, every=2), [[0, 1], [0, 1, 2, 3], [2, 3, 4, 5]]),
        (ms.rows(3, every=2), [[0, 1], [1, 2, 3], [3, 4, 5]]),
        (ms.rows(2, every=3), [[1, 2], [4, 5]]),
        (ms.rows(1, every=7), [[6]]),
    ],
)
def test_a_window_is_the_last_rows_each_time_that_more_have_come(
    window: Any, expected: list[list[int]], one_by_one: bool
) -> None:
    assert windows(window, list(range(7)), one_by_one=one_by_one) == expected


@pytest.mark.parametrize(
    "window", [ms.rows(3), ms.rows(4, every=2), ms.rows(5, every=3), ms.rows(2, every=5)]
)
@pytest.mark.parametrize("seed", range(2))
def test_windows_are_those_of_a_plain_loop(window: Any, seed: int) -> None:
    random_ = random.Random(seed)
    seen: dict[Any, list[int]] = defaultdict(list)
    elements: list[Any] = []
    expected = []
    every = window.every or window.size
    for number in range(100):
        user = random_.choice(["a", "b", None])
        elements.append((user, number))
        seen[user].append(number)
        if len(seen[user]) % every == 0:
            last = seen[user][-window.size :]
            expected.append((user, last, sum(last)))
        if random_.random() < 0.2:
            elements.append(random_.choice([snapshot(), snapshot(), crash()]))
    for parallelism in (1, 3):
        found = output(window, elements, parallelism=parallelism, seed=seed)
        assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_rescale_changes_nothing() -> None:
    given = [(f"user{n % 7}", n) for n in range(140)]
    result = run(
        job(ms.rows(4, every=2)),
        {"in": ms.testing.rows("user string, amount long", given)},
        parallelism=1,
        rescales=[3, 2],
        crashes=1,
        mode="unaligned",
    )
    found = result.output("out")
    assert len(found) == 70
    assert sum(total for *_, total in found) == sum(
        sum(range(user, 140, 7)[max(0, end - 4) : end])
        for user in range(7)
        for end in range(2, 21, 2)
    )


def test_state_does_not_grow_with_the_rows() -> None:
    result = run(job(ms.rows(4, every=2)), {"in": [("a", n) for n in range(101)]}, ends=False)
    assert len(result.state("windows", "slices")) == 2
    result = run(job(ms.rows(4)), {"in": [("a", n) for n in range(100)]}, ends=False)
    assert result.state("windows", "slices") == {}


def test_what_is_of_time_is_refused() -> None:
    for how in ({"emit": "update"}, {"lateness": "1s"}, {"on": "amount"}):
        with pytest.raises(GraphError, match="Leave it out"):
            run(job(ms.rows(3), **how), {"in": []})

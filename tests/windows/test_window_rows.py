"""The rows of windows: given to a function, folded by one, and the best of them."""

from __future__ import annotations

import random
import warnings
from collections import defaultdict
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import GraphError, UserFunctionError
from mainstay.testing import crash, rows, run, snapshot
from tests.windows.kit import CLICKS, click, clicks, output, second, shown, until

pytestmark = pytest.mark.usefixtures("backend")


class Spread(ms.WindowProcess):
    """What a window is told, and what its rows are as rows and as columns."""

    def process(self, rows: Any, window: Any, ctx: Any) -> Any:
        amounts = [row.amount for row in rows]
        assert rows.batch.column("amount").to_pylist() == amounts
        assert len(rows) == len(amounts)
        start = None if window.start is None else second(window.start)
        yield ctx.key, start, str(amounts), rows[0].user


SPREAD = "user string, start double, amounts string, first string"


def processed(window: Any, **how: Any) -> Any:
    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(window, **how)
        found = keyed.process(Spread(), SPREAD, uid="windows")
        found.sink(Memory(), uid="out")
        if not isinstance(window, type(ms.rows(1))):
            found.late.sink(Memory(), uid="late")

    return build


GIVEN = [click("a", 0, 1), click("b", 1, 2), snapshot(), click("a", 2, 3), click("a", 6, 4)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (ms.tumbling("5s"), [("a", 0, "[1, 3]", "a"), ("a", 5, "[4]", "a"), ("b", 0, "[2]", "b")]),
        (ms.sliding("10s", every="5s"),
         [("a", -5, "[1, 3]", "a"), ("a", 0, "[1, 3, 4]", "a"), ("a", 5, "[4]", "a"),
          ("b", -5, "[2]", "b"), ("b", 0, "[2]", "b")]),
        (ms.cumulating("10s", every="5s"),
         [("a", 0, "[1, 3]", "a"), ("a", 0, "[1, 3, 4]", "a"), ("b", 0, "[2]", "b"),
          ("b", 0, "[2]", "b")]),
        (ms.session("3s"), [("a", 0, "[1, 3]", "a"), ("a", 6, "[4]", "a"), ("b", 1, "[2]", "b")]),
        (ms.rows(2), [("a", None, "[1, 3]", "a")]),
    ],
)  # fmt: skip
def test_a_function_is_given_all_rows_of_a_key_in_a_window(window: Any, expected: Any) -> None:
    elements = [*GIVEN, crash(), until(100)]
    assert output(processed(window), elements) == sorted(expected, key=repr)


def test_late_rows_of_such_windows_are_read() -> None:
    elements = [click("a", 20), until(15), click("a", 1, 7)]
    assert output(processed(ms.tumbling("5s")), elements, "late") == [("a", 1, 7)]


def test_the_watermark_is_the_one_that_made_the_window_complete() -> None:
    class Told(ms.WindowProcess):
        def process(self, rows: Any, window: Any, ctx: Any) -> Any:
            return second(ctx.watermark), window.is_final, second(window.end)

    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(ms.tumbling("5s"), emit="update", lateness="5s")
        keyed.process(Told(), "at double, is_final boolean, until double", uid="w").sink(
            Memory(), uid="out"
        )

    elements = [click("a", 0), until(7), until(12)]
    result = run(build, {"clicks": elements}, parallelism=1)
    assert result.output("out") == [(7, False, 5), (12, True, 5)]


def test_an_error_of_the_function_names_the_operator() -> None:
    class Bad(ms.WindowProcess):
        def process(self, rows: Any, window: Any, ctx: Any) -> Any:
            raise ValueError("no good")

    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(ms.session("5s"))
        keyed.process(Bad(), "n long", uid="windows").sink(Memory(), uid="out")

    with pytest.raises(UserFunctionError, match="no good"):
        run(build, {"clicks": [click("a", 0)]})


def test_a_function_that_does_not_fit_is_refused() -> None:
    class Stateful(ms.WindowProcess):
        n = ms.ValueState("long")

        def process(self, rows: Any, window: Any, ctx: Any) -> Any:
            return None

    class TooFew(ms.WindowProcess):
        def process(self, rows: Any, ctx: Any) -> Any:  # type: ignore[override]
            return None

    def building(function: Any) -> Any:
        def build(env: ms.Environment) -> None:
            keyed = clicks(env).key_by("user").window(ms.session("5s"))
            keyed.process(function, "n long", uid="windows").sink(Memory(), uid="out")

        return build

    for function, match in ((Stateful(), "declares state"), (TooFew(), "rows, window, ctx")):
        with pytest.raises(GraphError, match=match):
            run(building(function), {"clicks": []})


# ---------------------------------------------------------------- folds


def test_rows_are_folded_by_any_function() -> None:
    def longest(reduced: Any, row: Any) -> Any:
        return {"user": row.user, "at": row.at, "amount": reduced.amount * 10 + row.amount}

    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(ms.session("3s"))
        keyed.reduce(longest, uid="windows").sink(Memory(), uid="out")

    found = output(build, [*GIVEN, until(100)])
    assert found == sorted([("a", 0, 5, 13), ("a", 6, 9, 4), ("b", 1, 4, 2)], key=repr)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_function_of_a_fold_may_return_a_tuple_as_that_of_a_running_one(count: int) -> None:
    def added(reduced: Any, row: Any) -> Any:
        return reduced.user, row.at, reduced.amount + row.amount

    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(ms.tumbling("10s"))
        keyed.reduce(added, uid="windows").sink(Memory(), uid="out")

    given = [click("a", n, n) for n in range(count)]
    assert output(build, given) == [("a", 0, 10, sum(range(count)))]


@pytest.mark.parametrize(
    ("returned", "said"), [(None, "returned None"), (("a", 1), "columns of its input")]
)
def test_a_fold_that_returns_no_row_is_refused(returned: Any, said: str) -> None:
    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(ms.tumbling("10s"))
        keyed.reduce(lambda reduced, row: returned, uid="windows").sink(Memory(), uid="out")

    with pytest.raises(UserFunctionError, match=said):
        run(build, {"clicks": [click("a", 0), click("a", 1)]})


# ---------------------------------------------------------------- the best


def test_rows_without_a_rank_are_not_among_the_best_of_a_window() -> None:
    """As in the running top: null has no rank, also where there are fewer rows than asked for."""

    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(ms.tumbling("10s"))
        keyed.top(2, by="amount", ties=True, uid="windows").sink(Memory(), uid="out")

    given = [click("a", 0, 5), click("a", 1, None), click("b", 2, None)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        assert output(build, given) == [("a", 0, 5, 0, 10)]


def best(count: int, window: Any = None, **how: Any) -> Any:
    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(window or ms.tumbling("10s"))
        keyed.top(count, by="amount", uid="windows", **how).sink(Memory(), uid="out")

    return build


@pytest.mark.parametrize(
    ("count", "how", "amounts"),
    [
        (1, {}, [(3, 9)]),
        (2, {}, [(3, 9), (1, 7)]),
        (2, {"ties": True}, [(3, 9), (1, 7), (4, 7)]),
        (3, {"ascending": True}, [(0, 2), (2, 5), (1, 7)]),
        (9, {}, [(3, 9), (1, 7), (4, 7), (2, 5), (0, 2)]),
    ],
)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_best_rows_are_emitted_the_best_first(
    count: int, how: Any, amounts: Any, one_by_one: bool
) -> None:
    elements: list[Any] = []
    for at, amount in enumerate([2, 7, 5, 9, 7, None]):
        elements += [click("a", at, amount), *([snapshot()] if one_by_one else [])]
    result = run(best(count, **how), {"clicks": [*elements, until(100)]}, parallelism=1)
    found = shown(result.output("out"))
    assert found == [("a", at, amount, 0, 10) for at, amount in amounts]


@pytest.mark.parametrize(
    "window", [ms.tumbling("4s"), ms.sliding("6s", every="2s"), ms.session("0.8s"), ms.rows(5)]
)
def test_no_more_rows_are_kept_than_are_emitted(window: Any) -> None:
    elements = [click("a", n / 10, n % 17) for n in range(50)]
    result = run(best(2, window), {"clicks": elements}, parallelism=1, ends=False)
    names = {"Tumbling": "panes", "Sliding": "panes", "Session": "sessions", "Rows": "slices"}
    state = result.state("windows", names[type(window).__name__])
    lists = [value[0] for value in state.values()]
    assert all(len(each) <= 2 for each in lists)


@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_windows_are_those_of_a_plain_loop(seed: int) -> None:
    random_ = random.Random(seed)
    given = [
        click(random_.choice("abc"), random_.uniform(0, 40), random_.randrange(10**6))
        for _ in range(200)
    ]
    windows: dict[Any, list[Any]] = defaultdict(list)
    for row in given:
        windows[row[0], second(row[1]) // 10].append(row)
    expected = [
        (user, second(at), amount, number * 10, number * 10 + 10)
        for (_, number), some in windows.items()
        for user, at, amount in sorted(some, key=lambda row: -row[2])[:3]
    ]
    result = run(
        best(3),
        {"clicks": rows(CLICKS, sorted(given, key=lambda row: row[1]), splits=1)},
        parallelism=2,
        seed=seed,
        crashes=1,
        rescales=[3],
    )
    assert sorted(shown(result.output("out")), key=repr) == sorted(expected, key=repr)


def test_what_cannot_be_ordered_or_is_not_there_is_refused() -> None:
    def build(env: ms.Environment) -> None:
        clicks(env).key_by("user").window(ms.tumbling("1s")).top(1, by="amuont")

    with pytest.raises(GraphError, match="amount"):
        run(build, {"clicks": []})
    for count in (0, -1, 1.5):
        with pytest.raises(GraphError, match="count"):
            run(best(count), {"clicks": []})  # type: ignore[arg-type]


HEARD: list[str] = []


class Heard(ms.WindowProcess):
    """Shipped by its name, so that all instances tell one list."""

    def open(self, ctx: Any) -> None:
        HEARD.append("open")

    def process(self, rows: Any, window: Any, ctx: Any) -> Any:
        HEARD.append("process")

    def on_snapshot_complete(self, epoch: int) -> None:
        HEARD.append("epoch")

    def close(self) -> None:
        HEARD.append("close")


def test_a_function_is_opened_told_of_epochs_and_closed() -> None:
    def build(env: ms.Environment) -> None:
        keyed = clicks(env).key_by("user").window(ms.session("5s"))
        keyed.process(Heard(), "n long", uid="windows").sink(Memory(), uid="out")

    HEARD.clear()
    run(build, {"clicks": [click("a", 0), snapshot(), until(100), snapshot()]}, parallelism=1)
    assert HEARD[0] == "open"
    assert HEARD[-1] == "close"
    assert HEARD.index("process") > HEARD.index("epoch")

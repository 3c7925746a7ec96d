"""Orders of several columns: ``top`` of keys and of windows, ``max_by`` and ``min_by``."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.testing import rows, run

T0 = datetime(2026, 1, 1, tzinfo=timezone.utc)
BID = "item string, price double, who string, n long, at timestamp"
NAN = float("nan")
MIXED = ["price", ms.col("who").asc(), ms.col("n").desc()]


def drawn(seed: int, count: int = 120) -> list[tuple[Any, ...]]:
    """Rows with many ties; ``n`` is unique, some prices and names are null."""
    draw = Random(seed)
    prices = [None, 1.0, 2.0, NAN]
    return [
        (
            f"item {draw.randrange(3)}",
            draw.choice(prices),
            draw.choice([None, "ann", "bob", "cy"]),
            n,
            T0 + timedelta(seconds=n),
        )
        for n in range(count)
    ]


def before(row: Any) -> tuple[Any, ...]:
    """Where a row stands in the order ``MIXED``: greatest price, least name, greatest number."""
    _, price, who, n, _ = row
    is_nan = price is not None and price != price
    number = -1e9 if price is None else 1e9 if is_nan else price
    return -number, who is None, who or "", -n


def best(given: list[Any], count: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for item in {row[0] for row in given}:
        of_item = [row for row in given if row[0] == item and row[1] is not None]
        found[item] = [row[3] for row in sorted(of_item, key=before)[:count]]
    return found


def out(build: Any, given: list[Any], **how: Any) -> list[Any]:
    def program(env: ms.Environment) -> None:
        source = rows(BID, given, splits=3)
        stream = env.source(source, uid="bids", watermark=ms.Watermark("at", delay="1h"))
        build(stream.key_by("item")).sink(ms.connectors.Memory(), uid="out")

    return run(program, **how).output("out")


@pytest.mark.parametrize("seed", range(3))
def test_a_running_top_by_several_columns_is_that_of_a_sorted_list(seed: int) -> None:
    given = drawn(seed)
    emitted = out(
        lambda s: s.top(4, by=MIXED, uid="top"), given, seed=seed, crashes=1, rescales=[3]
    )
    found: dict[str, dict[int, int]] = {}
    for item, _, _, n, _, rank in emitted:
        found.setdefault(item, {})[rank] = n
    boards = {item: [board[rank] for rank in sorted(board)] for item, board in found.items()}
    assert boards == best(given, 4)


@pytest.mark.parametrize("seed", range(3))
def test_the_top_of_a_window_by_several_columns_is_that_of_a_sorted_list(seed: int) -> None:
    given = drawn(seed)

    def build(stream: ms.KeyedStream) -> ms.Stream:
        return stream.window(ms.tumbling("1h")).top(50, by=MIXED, uid="top")

    emitted = out(build, given, seed=seed, crashes=1)
    found: dict[str, list[int]] = {}
    for row in emitted:
        found.setdefault(row[0], []).append(row[3])
    assert found == best(given, 50)


@pytest.mark.parametrize("seed", range(3))
def test_max_by_and_min_by_of_several_columns_are_those_of_a_sorted_list(seed: int) -> None:
    given = drawn(seed)

    def build(stream: ms.KeyedStream) -> ms.Stream:
        # Directions that are all said give the same row, whichever is called.
        said = [ms.col("price").desc(), ms.col("who").asc(), ms.col("n").desc()]
        return stream.aggregate(
            most=ms.max_by(MIXED, "n"), least=ms.min_by(said, ["n", "who"]), uid="best"
        )

    last = {row[0]: row for row in out(build, given, seed=seed, crashes=1)}
    wanted = best(given, 1)
    assert {item: [row[1]] for item, row in last.items()} == wanted
    assert {item: [row[2].n] for item, row in last.items()} == wanted


def test_ties_in_all_columns_go_to_the_row_that_came_first() -> None:
    given = [("x", 1.0, "a", n, T0) for n in range(5)]

    def build(stream: ms.KeyedStream) -> ms.Stream:
        return stream.aggregate(n=ms.max_by(["price", "who"], "n"), uid="best")

    assert out(build, given, parallelism=1)[-1] == ("x", 0)
    tops = out(lambda s: s.top(2, by=["price", "who"], uid="top"), given, parallelism=1)
    assert [(row[3], row[5]) for row in tops[-2:]] == [(0, 1), (1, 2)]


def test_nan_is_above_every_number_also_in_windows() -> None:
    given = [("x", price, "a", n, T0) for n, price in enumerate([1.0, NAN, None, 3.0])]

    def build(stream: ms.KeyedStream) -> ms.Stream:
        return stream.window(ms.tumbling("1h")).top(4, by="price", uid="top")

    assert [row[3] for row in out(build, given)] == [1, 3, 0]


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ([], r"by=\[\] names no column"),
        (["prise", "at"], r"no column 'prise'.*Did you mean 'price'\?"),
        (["price", "price"], "named twice"),
        (["price", "-at"], r'write ms.col\("at"\).asc\(\) for the least first'),
        ([ms.col("n") * 2], r"is an expression.*with_columns\(\.\.\.\)"),
        (5, "by=5 is no column"),
    ],
)
def test_what_is_no_order_is_refused(by: Any, said: str) -> None:
    env = ms.Environment()
    keyed = env.source(rows(BID, []), uid="b", watermark=ms.Watermark("at")).key_by("item")
    for build in (
        lambda: keyed.top(2, by=by),
        lambda: keyed.window(ms.tumbling("1h")).top(2, by=by),
    ):
        with pytest.raises(GraphError, match=said):
            build()


def test_directions_of_max_by_that_say_the_opposite_are_refused() -> None:
    with pytest.raises(GraphError, match=r"ms.min_by\('price'\)"):
        ms.max_by(ms.col("price").asc(), "n")
    assert ms.max_by(ms.col("price").desc(), "n") == ms.max_by("price", "n")
    keyed = ms.Environment().source(rows(BID, []), uid="b").key_by("item")
    with pytest.raises(GraphError, match=r"ascending=\[True\] must be True or False"):
        keyed.top(2, ["n"], ascending=[True])  # type: ignore[arg-type]

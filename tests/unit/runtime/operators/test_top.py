"""A running top-n as tables: rows that come, and the boards that are emitted."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory
from mainstay.errors import GraphError
from mainstay.testing import Watermark, crash, rows, run, snapshot

BID = "item string, price long, who string"


def result_of(given: list[Any], n: int = 2, by: str = "price", **named: Any) -> Any:
    def build(env: ms.Environment) -> None:
        keyed = env.source(Files("./no/bids.csv", schema=BID), uid="bids").key_by("item")
        keyed.top(n, by, uid="top", **named).sink(Memory(), uid="out")

    return run(build, {"bids": given}, parallelism=2)


def boards(given: list[Any], **named: Any) -> list[list[tuple[int, str]]]:
    """What is emitted for each row that changes something: prices and names, best first."""
    found = result_of(given, **named).elements("top")
    emitted = [each for each in found if not isinstance(each, Watermark)]
    all_boards: list[list[tuple[int, str]]] = []
    for _, price, who, rank in emitted:
        if rank == 1:
            all_boards.append([])
        assert rank == len(all_boards[-1]) + 1
        all_boards[-1].append((price, who))
    return all_boards


def test_the_rows_of_a_key_are_emitted_when_they_change() -> None:
    given = [("x", 5, "a"), ("x", 7, "b"), ("x", 4, "c"), ("x", 6, "d")]
    assert boards(given) == [[(5, "a")], [(7, "b"), (5, "a")], [(7, "b"), (6, "d")]]


def test_of_equal_values_the_one_that_came_first_is_before_the_others() -> None:
    given = [("x", 5, "a"), ("x", 5, "b"), ("x", 5, "c"), ("x", 6, "d")]
    assert boards(given) == [
        [(5, "a")],
        [(5, "a"), (5, "b")],
        [(6, "d"), (5, "a")],
    ]


def test_ascending_the_least_values_come_first() -> None:
    given = [("x", 5, "a"), ("x", 7, "b"), ("x", 7, "c"), ("x", 4, "d")]
    assert boards(given, ascending=True) == [
        [(5, "a")],
        [(5, "a"), (7, "b")],
        [(4, "d"), (5, "a")],
    ]


def test_rows_without_a_value_have_no_rank() -> None:
    assert boards([("x", None, "a"), ("x", 1, "b")]) == [[(1, "b")]]


def test_a_board_is_kept_across_a_crash() -> None:
    given = [("x", 5, "a"), ("x", 7, "b"), snapshot(), crash(), ("x", 4, "c"), ("x", 6, "d")]
    result = result_of(given)
    assert result.output("out")[-2:] == [("x", 7, "b", 1), ("x", 6, "d", 2)]
    assert result.state("top", "worst") == {"x": 6}
    assert [tuple(each) for each in result.state("top", "top")["x"]] == [
        ("x", 7, "b"),
        ("x", 6, "d"),
    ]


def test_a_batch_of_many_keys_gives_each_key_its_board() -> None:
    given = [(f"item {n % 5}", (n * 7919) % 1009, str(n)) for n in range(500)]

    def build(env: ms.Environment) -> None:
        keyed = env.source(rows(BID, given), uid="bids").key_by("item")
        keyed.top(3, "price", uid="top").sink(Memory(), uid="out")

    out = run(build, parallelism=1).output("out")
    last = {(item, rank): (price, who) for item, price, who, rank in out}
    for item, of_item in groupby(sorted(given, key=lambda row: row[0]), key=lambda row: row[0]):
        best = sorted(of_item, key=lambda row: -row[1])[:3]
        assert [last[item, rank] for rank in (1, 2, 3)] == [row[1:] for row in best]


def test_a_key_that_a_function_made_is_a_column_in_front() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows(BID, [("x", 5, "a"), ("y", 7, "b")]), uid="bids")
        keyed = stream.key_by(lambda row: len(row.item), "long")
        keyed.top(1, "price", uid="top").sink(Memory(), uid="out")

    assert run(build, parallelism=1).output("out")[-1] == (1, "y", 7, "b", 1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"n": 0}, "n=0"),
        ({"by": "prise"}, "Did you mean 'price'"),
        ({"ascending": "yes"}, "must be True or False"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(GraphError, match=why) as raised:
        result_of([], **arguments)
    assert "operator 'top' (top)" in str(raised.value)


def test_a_column_that_would_be_there_twice_is_refused() -> None:
    env = ms.Environment(spark="embedded")
    stream = env.source(rows("k long, rank long", []), uid="in")
    with pytest.raises(GraphError, match="a column 'rank'"):
        stream.key_by("k").top(3, "k")


def test_values_without_an_order_are_refused() -> None:
    env = ms.Environment(spark="embedded")
    stream = env.source(rows("k long, v array<long>", []), uid="in")
    with pytest.raises(GraphError, match="have no order"):
        stream.key_by("k").top(3, "v")

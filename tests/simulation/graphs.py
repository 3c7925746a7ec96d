"""The graphs that seeds draw from. All end in a ledger: ``ledger`` takes a keyed stream, and gives
the rows that have passed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import mainstay as ms
from tests.simulation.ledgers import (
    ROW,
    Around,
    AroundAside,
    BatchLedger,
    Marked,
    Numbered,
    Rejoined,
    Sorting,
    one_round_less,
)

Builder: TypeAlias = Callable[[Any, Any, Any], None]


def a_chain(env: Any, source: Any, ledger: Any) -> None:
    kept = ledger(source("in").map(tuple, ROW, uid="map").key_by("key"))
    kept.filter(lambda row: True, uid="filter").sink(ms.connectors.Memory(), uid="out")


def fan_in(env: Any, source: Any, ledger: Any) -> None:
    joined = source("in").union(source("in2").map(tuple, ROW, uid="map"), source("in3"))
    end(joined, ledger)


def diamond(env: Any, source: Any, ledger: Any) -> None:
    start = source("in")
    odd = start.filter(lambda row: row.id % 2, uid="odd").rebalance()
    even = start.filter(lambda row: row.id % 2 == 0, uid="even").process(
        Numbered(), ROW, uid="numbered"
    )
    end(odd.map(tuple, ROW, uid="map").union(even), ledger)


def two_shuffles(env: Any, source: Any, ledger: Any) -> None:
    end(source("in").key_by("other").process_batches(BatchLedger(), ROW, uid="batches"), ledger)


def broadcast_side(env: Any, source: Any, ledger: Any) -> None:
    rules = source("in2").filter(lambda row: row.place < 5, uid="rules").broadcast()
    marked = source("in").key_by("key", "other").connect(rules).process(Marked(), ROW, uid="marked")
    kept = ledger(marked.key_by(lambda row: row.key, "string"))
    kept.sink(ms.connectors.Memory(), uid="out")


def aggregates(env: Any, source: Any, ledger: Any) -> None:
    start = source("in")
    start.key_by("key").aggregate(
        ids=ms.collect("id"),
        n=ms.count(),
        total=ms.sum("id"),
        newest=ms.max("id"),
        last=ms.last("key"),
        uid="totals",
    ).sink(ms.connectors.Memory(), uid="totals-out")
    end(start, ledger)


def end(stream: Any, ledger: Any) -> None:
    ledger(stream.key_by("key")).sink(ms.connectors.Memory(), uid="out")


def a_loop(env: Any, source: Any, ledger: Any) -> None:
    """Each row goes round as often as it says, with state of its key in the loop."""

    def body(head: Any) -> Any:
        stepped = head.key_by("key").process(Around(), ROW, uid="around")
        back = stepped.filter(lambda row: row.other >= 0, uid="back")
        return back, stepped.filter(lambda row: row.other < 0, uid="on")

    end(source("in").iterate(body, uid="loop"), ledger)


def two_loops(env: Any, source: Any, ledger: Any) -> None:
    """The first is one chain from its head to its tail, the second goes through a shuffle."""

    def first(head: Any) -> Any:
        stepped = head.map(one_round_less, ROW, uid="step")
        back = stepped.filter(lambda row: row.other >= 1, uid="back1")
        return back, stepped.filter(lambda row: row.other < 1, uid="on1")

    def second(head: Any) -> Any:
        stepped = head.rebalance().map(one_round_less, ROW, uid="step2")
        back = stepped.filter(lambda row: row.other >= -4, uid="back2")
        return back, stepped.filter(lambda row: row.other < -4, uid="on2")

    once = source("in").union(source("in2")).iterate(first, uid="loop1")
    end(once.iterate(second, uid="loop2"), ledger)


def nested_loops(env: Any, source: Any, ledger: Any) -> None:
    """Rows with an odd number of rounds left go round in the inner loop, others in the outer."""

    def inner(head: Any) -> Any:
        stepped = head.key_by("key").process(Around(), ROW, uid="around")
        back = stepped.filter(lambda row: row.other >= 0 and row.other % 2 == 0, uid="inner")
        return back, stepped.filter(lambda row: row.other < 0 or row.other % 2, uid="leave")

    def outer(head: Any) -> Any:
        stepped = head.rebalance().iterate(inner, uid="inner-loop")
        back = stepped.filter(lambda row: row.other >= 0, uid="outer")
        return back, stepped.filter(lambda row: row.other < 0, uid="on")

    end(source("in").iterate(outer, uid="outer-loop"), ledger)


def sides(env: Any, source: Any, ledger: Any) -> None:
    """A side output that is read within the chain, and beside the main one by another task."""
    even = source("in").key_by("other").process(Sorting(), ROW, uid="sorting")
    odd = even.side("odd")
    odd.process(Numbered(), ROW, uid="numbered").sink(ms.connectors.Memory(), uid="numbered-out")
    both = even.key_by("key").connect(odd.key_by("key"))
    end(both.process(Rejoined(), ROW, uid="rejoined"), ledger)


def side_loop(env: Any, source: Any, ledger: Any) -> None:
    """The loop is closed by a side output."""

    def body(head: Any) -> Any:
        stepped = head.key_by("key").process(AroundAside(), ROW, uid="around")
        return stepped.side("back"), stepped

    end(source("in").iterate(body, uid="loop"), ledger)


LOOPS: dict[str, tuple[Builder, tuple[str, ...]]] = {
    "loop": (a_loop, ("in",)),
    "two_loops": (two_loops, ("in", "in2")),
    "nested_loops": (nested_loops, ("in",)),
}
GRAPHS: dict[str, tuple[Builder, tuple[str, ...]]] = {
    "chain": (a_chain, ("in",)),
    "fan_in": (fan_in, ("in", "in2", "in3")),
    "diamond": (diamond, ("in",)),
    "two_shuffles": (two_shuffles, ("in",)),
    "broadcast_side": (broadcast_side, ("in", "in2")),
    "aggregates": (aggregates, ("in",)),
}
SIDES: dict[str, tuple[Builder, tuple[str, ...]]] = {
    "sides": (sides, ("in",)),
    "side_loop": (side_loop, ("in",)),
}
BUILT = GRAPHS | LOOPS | SIDES
UNORDERED = {*LOOPS, "side_loop", "changed"}
"""Graphs in which the rows of one split and key take many paths."""
COUNTED = {"broadcast_side": ("in",)}
"""Graphs of which only some inputs end in the ledger."""

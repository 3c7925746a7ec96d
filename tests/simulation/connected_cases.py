"""Jobs with several connected inputs, broadcast state or a partitioner, and what they should give.

======== ==========================================================================
settle   orders, refunds and fees of a key; at each timer, all rows up to its time
price    orders without a key, each with the rate of its kind, which are broadcast
chosen   rows of two inputs by a partitioner, each with the subtask that has it
======== ==========================================================================

Rows are out of order, but never late, so what is settled at a time does not depend on the order in
which rows come: unless event time runs ahead of one of the inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import mainstay as ms
from mainstay.connectors.memory import Memory
from mainstay.testing import rows, run
from mainstay.testing.run import Result

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS, KEYS, KINDS, DELAY_S = 40, 3, 4, 3
WEIGHTS = {"orders": 1, "refunds": 1_000, "fees": 1_000_000}
SCHEMAS = {
    "orders": "k string, n long, at timestamp",
    "refunds": "n long, of string, at timestamp",
    "fees": "at timestamp, n long, k string",
}
NUMBERS = 150
RATES = [(kind, by) for by in range(3) for kind in range(KINDS)]


class Settle(ms.MultiProcess):
    """At each time that a row has asked for, the weight of all rows of its key up to then."""

    held = ms.ListState("struct<us:long,weight:long>")

    def process_orders(self, row: Any, ctx: Any) -> None:
        self.take(row.at, WEIGHTS["orders"], ctx)

    def process_refunds(self, row: Any, ctx: Any) -> None:
        self.take(row.at, WEIGHTS["refunds"], ctx)

    def process_fees(self, row: Any, ctx: Any) -> None:
        self.take(row.at, WEIGHTS["fees"], ctx)

    def take(self, at: datetime, weight: int, ctx: Any) -> None:
        self.held.add((micros(at), weight))
        ctx.timers.event_time(at + timedelta(seconds=1))

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        yield ctx.key, at, sum(each.weight for each in self.held.get() if each.us <= micros(at))


class Price(ms.CoProcess):
    """Each order with the rate of its kind: what all rows of the broadcast input add up to."""

    rates = ms.BroadcastMapState("long", "long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        return row.n, self.rates.get(row.n % KINDS)

    def process_right(self, row: Any, ctx: Any) -> None:
        self.rates[row.kind] = self.rates.get(row.kind, 0) + row.by


class Seen(ms.CoProcess):
    """The rows of both inputs, each with the subtask that has it."""

    def process_left(self, row: Any, ctx: Any) -> Any:
        return "left", row.n, ctx.subtask, ctx.parallelism

    def process_right(self, row: Any, ctx: Any) -> Any:
        return "right", row.m, ctx.subtask, ctx.parallelism


def micros(at: datetime) -> int:
    return round((at - START).total_seconds() * 1_000_000)


# ---------------------------------------------------------------- three keyed inputs

Event = tuple[str, int, datetime]


def events(seed: int) -> dict[str, list[Event]]:
    """Key, number and time of the rows of each input."""
    return {uid: _events(seed, number) for number, uid in enumerate(SCHEMAS)}


def _events(seed: int, number: int) -> list[Event]:
    draw = np.random.default_rng([seed, number])
    true = np.sort(draw.uniform(0, 30, ROWS).round(1))
    order = np.argsort(true + draw.uniform(0, DELAY_S - 0.2, ROWS), kind="stable")
    keys = [f"k{draw.integers(KEYS)}" for _ in range(ROWS)]
    return [(keys[n], int(n), START + timedelta(seconds=float(true[n]))) for n in order]


def _settle(seed: int, env: ms.Environment) -> None:
    given = events(seed)
    shown = {
        "orders": given["orders"],
        "refunds": [(n, k, at) for k, n, at in given["refunds"]],
        "fees": [(at, n, k) for k, n, at in given["fees"]],
    }
    mark = ms.Watermark("at", delay=f"{DELAY_S}s")
    orders, refunds, fees = (
        env.source(rows(SCHEMAS[uid], each, splits=2), uid=uid, watermark=mark)
        for uid, each in shown.items()
    )
    inputs = env.connect(
        orders=orders.key_by("k"), refunds=refunds.key_by("of"), fees=fees.key_by("k")
    )
    settled = inputs.process(Settle(), "k string, at timestamp, weight long", uid="settle")
    settled.sink(Memory(), uid="out")


def _settled_wrong(seed: int, result: Result) -> Iterator[str]:
    every = [(k, at, WEIGHTS[uid]) for uid, each in events(seed).items() for k, _, at in each]
    wanted = Counter(
        (key, at, sum(weight for k, when, weight in every if k == key and when <= at))
        for key, at in {(k, at + timedelta(seconds=1)) for k, at, _ in every}
    )
    if Counter(result.output("out")) != wanted:
        yield "settled"


# ---------------------------------------------------------------- broadcast state


def _price(seed: int, env: ms.Environment) -> None:
    orders = env.source(rows("n long", [(n,) for n in range(NUMBERS)], splits=3), uid="orders")
    rates = env.source(rows("kind long, by long", RATES, splits=2), uid="rates")
    waiting = orders.rebalance().connect(rates.broadcast(), wait_for_right=True)
    priced = waiting.process(Price(), "n long, rate long", uid="price")
    priced.sink(Memory(), uid="out")


def _priced_wrong(seed: int, result: Result) -> Iterator[str]:
    rate = sum(by for kind, by in RATES if kind == 0)
    if Counter(result.output("out")) != Counter((n, rate) for n in range(NUMBERS)):
        yield "priced"
    if any(each != dict.fromkeys(range(KINDS), rate) for each in result.state("price", "rates")):
        yield "rates"


# ---------------------------------------------------------------- a partitioner


def _chosen(seed: int, env: ms.Environment) -> None:
    lefts = env.source(rows("n long", [(n,) for n in range(NUMBERS)], splits=3), uid="lefts")
    rights = env.source(rows("m long", [(n,) for n in range(NUMBERS)], splits=2), uid="rights")
    left, right = lefts.partition_by(lambda row: row.n // 3), rights.partition_by(ms.col("m") + 1)
    seen = left.connect(right).process(
        Seen(), "side string, n long, subtask int, of int", uid="seen"
    )
    seen.sink(Memory(), uid="out")


def _chosen_wrong(seed: int, result: Result) -> Iterator[str]:
    found = result.output("out")
    both = [(side, n) for side in ("left", "right") for n in range(NUMBERS)]
    if Counter((side, n) for side, n, _, _ in found) != Counter(both):
        yield "rows"
    for side, n, subtask, of in found:
        if (n // 3 if side == "left" else n + 1) % of != subtask:
            yield "subtasks"
            return


# ---------------------------------------------------------------- runs

Program = Callable[[int, ms.Environment], None]
Check = Callable[[int, Result], Iterator[str]]
CASES: dict[str, tuple[Program, Check]] = {
    "settle": (_settle, _settled_wrong),
    "price": (_price, _priced_wrong),
    "chosen": (_chosen, _chosen_wrong),
}


def went_wrong(case: str, seed: int, **how: Any) -> list[str]:
    """What a run gave that it should not have."""
    program, check = CASES[case]
    # Sources tell a watermark after each batch: otherwise all is over before.
    with patch("mainstay.runtime.watermarks.EVERY_S", 0.0):
        result = run(partial(program, seed), seed=seed, **how)
    return list(check(seed, result))

"""A job with something to see: two sources, keyed state, a join, hot keys, a pace of its own.

It runs until it is told to end, and its functions can be told to fail or to wait.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import mainstay as ms
from mainstay.connectors import Memory, Polled, Source, Split, SplitReader
from mainstay.schema import to_schema

PER_SECOND = 2_000.0
CUSTOMERS = 400
HOT = 7
"""This customer has every fourth order."""

_numbers = itertools.count()
_switches: dict[int, Switches] = {}
# Workers get copies of functions; they find the originals' switches by number.


class Switches:
    """What a test tells a job of its own, and what the job tells the test."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.begin = threading.Event()
        self.begin.set()
        self.over = threading.Event()
        self.fail = threading.Event()
        self.hold = threading.Event()
        self.is_held = threading.Event()
        self.go_on = threading.Event()
        _switches[self.number] = self

    def release(self) -> None:
        """Let everything go on that is held, so that the job can end."""
        self.begin.set()
        self.hold.clear()
        self.go_on.set()


class Orders(Source):
    """Numbered orders at a steady pace in two splits, until the job is told that it is over."""

    schema = to_schema("number long, customer long, amount long")

    def __init__(self, switches: int, per_second: float) -> None:
        self.switches = switches
        self.per_second = per_second

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("even", 0), Split("odd", 1)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        start = split.data if offset is None else offset
        return _OrdersReader(self.switches, self.per_second / 2, start)


class _OrdersReader(SplitReader):
    def __init__(self, switches: int, per_second: float, position: int) -> None:
        self._switches = _switches[switches]
        self._per_second = per_second
        self._first = self._position = position
        self._opened = time.monotonic()

    def poll(self, max_rows: int) -> Polled:
        if self._switches.over.is_set():
            return Polled(None, self._position, finished=True)
        due = int((time.monotonic() - self._opened) * self._per_second)
        done = (self._position - self._first) // 2
        rows = min(max(0, due - done), max_rows, 500)
        if not rows:
            return Polled(None, self._position, finished=False)
        numbers = range(self._position, self._position + 2 * rows, 2)
        self._position += 2 * rows
        customers = [HOT if n % 4 == 0 else (n * 7919) % CUSTOMERS for n in numbers]
        columns = [list(numbers), customers, [n % 90 + 10 for n in numbers]]
        batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=Orders.schema)
        return Polled(batch, self._position, finished=False)


class Totals(ms.KeyedProcess):
    """Sums by customer; fails or waits when it is told to."""

    total = ms.ReducingState("long", lambda a, b: a + b)
    orders = ms.MapState("long", "long")

    def __init__(self, switches: int) -> None:
        self.switches = switches

    def open(self, ctx: Any) -> None:
        _switches[self.switches].begin.wait(120)

    def process(self, row: Any, ctx: Any) -> Any:
        switches = _switches[self.switches]
        if switches.fail.is_set():
            switches.fail.clear()
            raise ValueError(f"order {row.number} of customer {row.customer} has no price")
        if switches.hold.is_set():
            switches.is_held.set()
            switches.go_on.wait(120)
        self.total.add(row.amount)
        self.orders.put(row.number % 5, row.number)
        return ctx.key, row.amount, self.total.get()


def shop(directory: Path, switches: Switches, **settings: Any) -> Any:
    """Starts the job."""
    per_second = settings.pop("per_second", PER_SECOND)
    settings.setdefault("parallelism", 4)
    settings.setdefault("snapshots", ms.Snapshots(directory, every="200ms", retain=5))
    settings.setdefault("ui", True)
    env = ms.Environment(spark="embedded", **settings)
    orders = env.source(Orders(switches.number, per_second), uid="orders")
    paid = orders.filter(lambda row: row.amount > 12, uid="paid")
    totals = paid.key_by("customer").process(
        Totals(switches.number), "customer long, amount long, total long", uid="totals"
    )
    totals.sink(Memory(), uid="ledger")
    largest = totals.key_by("customer").reduce(
        lambda a, b: a if a.total > b.total else b, uid="largest"
    )
    largest.sink(Memory(), uid="board")
    audit = orders.filter(lambda row: row.amount > 95, uid="suspicious")
    audit.rebalance().map(lambda row: row, Orders.schema, uid="audit").sink(Memory(), uid="cases")
    return env.start("shop")

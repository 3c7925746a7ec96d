"""A job with states of every kind, met half-way, for tests that read and write its states."""

from __future__ import annotations

import operator
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import mainstay as ms
from tests.unit.drive.test_embedded import HALF, KEYS, PATIENCE_S, Gated, Telling, environment

OUT = "customer string, region int, n long"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
EPOCHS = 4
"""So many are taken on purpose before a job is stopped."""


class Numbered(ms.Process):
    """Passes rows on, and keeps some of them in operator state."""

    seen = ms.OperatorListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        if row.n < 10:
            self.seen.add(row.n)
        return f"c{row.k}", row.k % 2, row.n


class Everything(ms.KeyedProcess):
    """Keeps each kind of state."""

    last = ms.ValueState("struct<n:long,at:timestamp>")
    total = ms.ReducingState("long", operator.add)
    numbers = ms.ListState("int")
    parities = ms.MapState("string", "long")
    session = ms.ValueState("string", ttl="1 hour")
    recent = ms.ListState("long", ttl="1 hour")
    pages = ms.MapState("string", "int", ttl="1 hour")
    anything = ms.ValueState()

    def process(self, row: Any, ctx: Any) -> Any:
        parity = "even" if row.n % 2 == 0 else "odd"
        self.last.update((row.n, EPOCH))
        self.total.add(row.n)
        self.numbers.add(row.n)
        self.parities.put(parity, (self.parities.get(parity) or 0) + 1)
        self.session.update(f"session {row.n}")
        self.recent.add(row.n)
        self.pages.put(parity, row.n)
        self.anything.update({"n": row.n})
        return ctx.key.customer, ctx.key.region, self.total.get()


def build(env: ms.Environment, source: ms.connectors.Source, sink: Telling) -> None:
    rows = env.source(source, uid="numbers").process(Numbered(), OUT, uid="numbered")
    keyed = rows.key_by("customer", "region")
    keyed.process(Everything(), "customer string, region int, total long", uid="all").sink(
        sink, uid="out"
    )
    sums = rows.key_by("customer").aggregate(total=ms.sum("n"), n=ms.count(), uid="sums")
    sums.sink(ms.connectors.Memory(), uid="sums-out")


def start(directory: Path, source: ms.connectors.Source, sink: Telling, **settings: Any) -> Any:
    env = environment(directory, **settings)
    build(env, source, sink)
    return env.start("everything")


def stopped_half_way(folder: Path, **settings: Any) -> tuple[Gated, Telling, str]:
    """A job that has seen half of the numbers, in ``snapshots`` and in the savepoint ``saved``.

    However quick the machine, there were so many epochs that the first is not kept any more.
    """
    source, sink = Gated(), Telling()
    job = start(folder / "snapshots", source, sink, parallelism=2, **settings)
    sink.await_half()
    for _ in range(EPOCHS):
        job.snapshot(PATIENCE_S)
    saved = job.stop(folder / "saved", timeout=PATIENCE_S)
    return source, sink, str(saved)


def numbers_by_key(end: int = HALF) -> dict[tuple[str, int], list[int]]:
    """The numbers that each key has seen."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for n in range(end):
        found[(f"c{n % KEYS}", n % KEYS % 2)].append(n)
    return dict(found)

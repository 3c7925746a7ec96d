"""The two jobs, in any version.

A job has one state backend, so there are two: ``orders`` keeps its state in RocksDB and has
windows, timers, a join and a loop; ``accounts`` keeps it in PostgreSQL. Version 2 has wider types
than version 1, and every version has a state more than the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import mainstay as ms

EVENT = "n long, k long, kind string, deal long, amount int, at timestamp"
MOVE = "n long, k long, kind string, amount int"
COUNTED = "n long, k long, amount long, seen long"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
WINDOW_US = 10_000_000
LOOP_EVERY = 5


@dataclass(frozen=True)
class Ends:
    """A source, and sinks by the name of what they get."""

    source: Any
    sinks: dict[str, Any]


class Counting(ms.KeyedProcess):
    """Counts the rows of a key in ``seen``, and in a state for each version since that version."""

    versions: tuple[str, ...] = ()
    seen: Any

    def count(self) -> int:
        for name in self.versions:
            state = getattr(self, name)
            state.update((state.get() or 0) + 1)
        seen = (self.seen.get() or 0) + 1
        self.seen.update(seen)
        return seen


def in_version(base: type[Counting], version: int) -> Counting:
    """The function as a version of the program has it."""
    wide = "int" if version == 1 else "long"
    names = tuple(f"since_{number}" for number in range(2, version + 1))
    states: dict[str, Any] = {name: ms.ValueState("long") for name in names}
    states |= {"seen": ms.ValueState(wide), "versions": names}
    if base is Totals:
        states["weight"] = ms.ReducingState(wide, lambda a, b: a + b)
    return type(base.__name__, (base,), states)()  # type: ignore[no-any-return]


class Totals(Counting):
    last = ms.ValueState("long")
    weight: Any

    def process(self, row: Any, ctx: Any) -> Any:
        seen = self.count()
        self.last.update(row.n)
        self.weight.add(row.amount)
        yield row.n, ctx.key, seen, self.weight.get()


class Buckets(ms.KeyedProcess):
    """Windows by hand: a timer at the end of each."""

    pending = ms.MapState("long", "struct<count:long,total:long>")

    def process(self, row: Any, ctx: Any) -> None:
        at_us = (row.at - EPOCH) // timedelta(microseconds=1)
        end = at_us // WINDOW_US * WINDOW_US + WINDOW_US
        count, total = self.pending.get(end, (0, 0))
        self.pending.put(end, (count + 1, total + row.amount))
        ctx.timers.event_time(EPOCH + timedelta(microseconds=end))

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        end = (at - EPOCH) // timedelta(microseconds=1)
        count, total = self.pending.pop(end)
        yield ctx.key, end, count, total


class Turn(ms.KeyedProcess):
    """One way round the loop."""

    turns = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.turns.update((self.turns.get() or 0) + 1)
        yield row.n, ctx.key, row.left - 1, (row.value * 3 + 1) % 1_000_003


TURNING = "n long, k long, left long, value long"


def turning(head: Any) -> tuple[Any, Any]:
    done = head.key_by("k").process(Turn(), TURNING, uid="turn")
    return done.filter(ms.col("left") > 0), done.filter(ms.col("left") == 0)


def build_orders(env: ms.Environment, ends: Ends, version: int) -> None:
    events = env.source(ends.source, uid="events", watermark=ms.Watermark("at", delay="2s"))
    by_key = events.key_by("k")

    totals = by_key.process(
        in_version(Totals, version), "n long, k long, seen long, weight long", uid="totals"
    )
    totals.sink(ends.sinks["totals"], uid="totals-out")

    windows = by_key.window(ms.tumbling("10s")).aggregate(
        count=ms.count(), total=ms.sum("amount"), uid="windows"
    )
    windows.sink(ends.sinks["windows"], uid="windows-out")

    buckets = by_key.process(Buckets(), "k long, end long, count long, total long", uid="buckets")
    buckets.sink(ends.sinks["buckets"], uid="buckets-out")

    orders = events.filter(ms.col("kind") == "order").select("deal", "at", ordered="n")
    payments = events.filter(ms.col("kind") == "payment").select("deal", "at", paid="n")
    pairs = orders.key_by("deal").join(
        payments.key_by("deal"), within=ms.interval("0s", "500ms"), suffix="_paid", uid="pairs"
    )
    pairs.select("deal", "ordered", "paid").sink(ends.sinks["pairs"], uid="pairs-out")

    entering = events.filter(ms.col("n") % LOOP_EVERY == 0).map(
        lambda row: (row.n, row.k, row.n % 4 + 1, row.amount), TURNING
    )
    rounds = entering.iterate(turning, uid="loop").select("n", "k", "value")
    rounds.sink(ends.sinks["rounds"], uid="rounds-out")


class Accounts(Counting):
    twice = ms.ValueState("long")
    kinds = ms.MapState("string", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        seen = self.count()
        self.twice.update(2 * seen)
        self.kinds.put(row.kind, self.kinds.get(row.kind, 0) + row.amount)
        yield row.n, ctx.key, row.amount, seen


def build_accounts(env: ms.Environment, ends: Ends, version: int) -> None:
    counted = (
        env.source(ends.source, uid="files")
        .key_by("k")
        .process(
            in_version(Accounts, version),
            COUNTED,
            uid="accounts",
        )
    )
    moves = counted.select("n", "k", "amount")
    moves.sink(ends.sinks["moves"], uid="moves-out")
    moves.filter(ms.col("k") % 2 == 0).sink(ends.sinks["copies"], uid="copies-out")
    balances = counted.select("k", "seen").key_by("k")
    balances.sink(ends.sinks["balances"], uid="balances-out")


BUILDS = {"orders": build_orders, "accounts": build_accounts}

"""Callbacks of keyed functions: their rows, timers and batches, reducers, aggregates, patterns."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pyarrow as pa

import mainstay as ms
from tests.callbacks.conducts import Fault
from tests.callbacks.kind import Kind
from tests.callbacks.plain_kinds import OUT, Hooks
from tests.callbacks.rows import Given


class Counting(Hooks, ms.KeyedProcess):
    """Numbers the rows of each key."""

    count = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        count = (self.count.get() or 0) + 1
        self.count.update(count)
        self.meet("process", row.n)
        return ctx.key, count


class CountingYield(Hooks, ms.KeyedProcess):
    count = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        count = (self.count.get() or 0) + 1
        self.count.update(count)
        yield ctx.key, count
        self.meet("process", row.n)


class Timed(Hooks, ms.KeyedProcess):
    """Every row comes out again when its timer fires."""

    rows = ms.MapState("timestamp", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        at = row.at + timedelta(seconds=5)
        self.rows.put(at, row.n)
        ctx.timers.event_time(at)

    def on_timer(self, at: Any, ctx: Any) -> Any:
        n = self.rows.pop(at)
        yield ctx.key, n
        self.meet("on_timer", n)


class Declared(Hooks, ms.KeyedProcess):
    """One timer of processing time per key, set by its first row and told once."""

    first = ms.ValueState("long")
    soon = ms.Timer("processing_time")

    def process(self, row: Any, ctx: Any) -> Any:
        if self.first.get() is None:
            self.first.update(row.n % 3)
            self.soon.set(ctx.now())

    def on_timer(self, at: Any, ctx: Any) -> Any:
        self.meet("on_timer")
        return ctx.key, self.first.get()


class Batched(Hooks, ms.KeyedBatchProcess):
    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        totals = [
            old + len(rows)
            for old, (_, rows) in zip(
                self.total.get_many(batch.keys, 0), batch.groups(), strict=True
            )
        ]
        self.total.put_many(batch.keys, totals)
        self.meet("process", max(batch.batch["n"].to_pylist()))
        return batch.batch.select(["k", "n"])


class BatchTimed(Hooks, ms.KeyedBatchProcess):
    """A timer per key, moved by each of its batches: it fires at the end of input."""

    soon = ms.Timer("event_time")
    newest = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        newest = [max(rows["n"].to_pylist()) for _, rows in batch.groups()]
        known = self.newest.get_many(batch.keys, -1)
        newest = [max(pair) for pair in zip(newest, known, strict=True)]
        self.newest.put_many(batch.keys, newest)
        far = [batch.batch["at"][0].as_py() + timedelta(days=1)] * len(newest)
        self.soon.set_many(batch.keys, pa.array(far, pa.timestamp("us", "UTC")))

    def on_timers(self, keys: Any, times: Any, ctx: Any) -> Any:
        self.meet("on_timers")
        newest = self.newest.get_many(keys)
        return [(key, n) for key, n in zip(keys, newest, strict=True)]


class Adding:
    """An aggregate that counts; the named method of it does wrong."""

    def __init__(self, fault: Fault, at: str) -> None:
        self.fault, self.faulty = fault, at

    def meet(self, method: str, n: int | None = None) -> None:
        if method == self.faulty:
            self.fault(n)

    def create(self) -> int:
        self.meet("create")
        return 0

    def add(self, accumulator: int, value: int) -> int:
        self.meet("add", value)
        return accumulator + 1

    def merge(self, accumulator: int, other: int) -> int:
        self.meet("merge")
        return accumulator + other

    def result(self, accumulator: int) -> int:
        self.meet("result")
        return accumulator


class AddingFunction(Adding, ms.AggregateFunction):
    pass


def aggregating(fault: Fault, at: str) -> ms.KeyedProcess:
    class Aggregating(ms.KeyedProcess):
        count = ms.AggregatingState(Adding(fault, at), "long")

        def process(self, row: Any, ctx: Any) -> Any:
            self.count.add(row.n)
            return ctx.key, self.count.get()

    return Aggregating()


def reducing(fault: Fault) -> ms.KeyedProcess:
    def own_sum(one: int, other: int) -> int:
        fault()
        return one + other

    class Reducing(ms.KeyedProcess):
        count = ms.ReducingState("long", own_sum)

        def process(self, row: Any, ctx: Any) -> Any:
            self.count.add(1)
            return ctx.key, self.count.get()

    return Reducing()


def folded(fault: Fault) -> Any:
    def own_reduce(one: Any, other: Any) -> Any:
        fault(other.m)
        return {"k": other.k, "at": other.at, "n": one.n + other.n, "m": other.m}

    return own_reduce


def key_of(fault: Fault) -> Any:
    def own_key(row: Any) -> str:
        fault(row.n)
        return str(row.k)

    return own_key


def condition(fault: Fault) -> Any:
    def own_condition(row: Any) -> bool:
        fault(row.n)
        return True

    return own_condition


def selected(fault: Fault) -> Any:
    def own_select(match: Any) -> Any:
        fault(match.one.n)
        return match.key, match.one.n

    return own_select


def gap(fault: Fault) -> Any:
    def own_gap(row: Any) -> str:
        fault(row.n)
        return "1s"

    return own_gap


class Windowed(Hooks, ms.WindowProcess):
    def process(self, rows: Any, window: Any, ctx: Any) -> Any:
        for row in rows:
            yield ctx.key, row.n
        self.meet("process", max(row.n for row in rows))


def ones(stream: Any) -> Any:
    """A one for each row, to be summed up; its number is in another column."""
    return stream.select("k", "at", n=ms.lit(1).cast("long"), m=ms.col("n"))


def numbered(rows: list[Given]) -> Any:
    sizes = Counter(row.k for row in rows)
    return ((k, n) for k, size in sizes.items() for n in range(1, size + 1))


def firsts(rows: list[Given]) -> Any:
    return {(row.k, row.n % 3) for row in rows}


def newest(rows: list[Given]) -> Any:
    return {row.k: row.n for row in rows}.items()


def sizes(rows: list[Given]) -> Any:
    return Counter(row.k for row in rows).items()


def windows_of_ten(rows: list[Given]) -> Any:
    counts = Counter((row.k, row.n // 10) for row in rows)
    return ((k, count) for (k, _), count in counts.items())


def keyed(function: Any, name: str, at: str, frame: str = "", **more: Any) -> Kind:
    def apply(stream: Any, fault: Fault) -> Any:
        return stream.key_by("k").process(function(fault, at), OUT, uid="subject")

    return Kind(name, frame or at, apply, **more)


def aggregate(name: str) -> Kind:
    def apply(stream: Any, fault: Fault) -> Any:
        return stream.key_by("k").process(aggregating(fault, name), OUT, uid="subject")

    return Kind(f"aggregating-{name}", name, apply, expected=numbered)


def udaf(name: str) -> Kind:
    def apply(stream: Any, fault: Fault) -> Any:
        own = ms.udaf(AddingFunction(fault, name), "n", accumulator="long", returns="long")
        emitted = stream.key_by("k").window(ms.tumbling("10s")).aggregate(n=own, uid="subject")
        return emitted.select("k", "n")

    return Kind(f"udaf-{name}", name, apply, expected=windows_of_ten, hook=name)


def merging(stream: Any, fault: Fault) -> Any:
    """Windows that are put together of shorter ones."""
    own = ms.udaf(AddingFunction(fault, "merge"), "n", accumulator="long", returns="long")
    windows = stream.key_by("k").window(ms.sliding("10s", every="5s"))
    return windows.aggregate(n=own, uid="subject").select("k", "n")


def sliding_windows_of_ten(rows: list[Given]) -> Any:
    counts = Counter((row.k, row.n // 5 - step) for row in rows for step in range(2))
    return ((k, count) for (k, _), count in counts.items())


KINDS = (
    keyed(Counting, "keyed", "process", expected=numbered),
    keyed(CountingYield, "keyed-yield", "process", expected=numbered, is_generator=True),
    keyed(Counting, "keyed-open", "open", expected=numbered, hook="open", how="at once"),
    keyed(Counting, "keyed-on_snapshot", "on_snapshot", expected=numbered, hook="on_snapshot"),
    keyed(Counting, "keyed-close", "close", expected=numbered, hook="close", how="told"),
    keyed(Timed, "timer", "on_timer", hook="on_timer", is_generator=True),
    keyed(Declared, "clock-timer", "on_timer", hook="on_timer", expected=firsts),
    Kind(
        "batches",
        "process",
        lambda s, f: s.key_by("k").process_batches(Batched(f, "process"), OUT, uid="subject"),
    ),
    Kind(
        "batch-timers",
        "on_timers",
        lambda s, f: s.key_by("k").process_batches(BatchTimed(f, "on_timers"), OUT, uid="subject"),
        expected=newest,
        hook="on_timers",
    ),
    aggregate("create"),
    aggregate("add"),
    aggregate("result"),
    Kind(
        "reducing",
        "own_sum",
        lambda s, f: s.key_by("k").process(reducing(f), OUT, uid="subject"),
        expected=numbered,
    ),
    udaf("create"),
    udaf("add"),
    udaf("result"),
    Kind("udaf-merge", "merge", merging, expected=sliding_windows_of_ten, hook="merge"),
    Kind(
        "reduce",
        "own_reduce",
        lambda s, f: ones(s).key_by("k").reduce(folded(f), uid="subject").select("k", "n"),
        expected=numbered,
    ),
    Kind(
        "key-function",
        "own_key",
        lambda s, f: s.key_by(key_of(f), "string", uid="subject").process(
            Counting(f, ""), OUT, uid="behind"
        ),
        expected=numbered,
    ),
    Kind(
        "pattern-condition",
        "own_condition",
        lambda s, f: s.key_by("k").match(
            ms.pattern("one", condition(f)), lambda m: (m.key, m.one.n), OUT, uid="subject"
        ),
    ),
    Kind(
        "pattern-select",
        "own_select",
        lambda s, f: s.key_by("k").match(ms.pattern("one"), selected(f), OUT, uid="subject"),
    ),
    Kind(
        "window-process",
        "process",
        lambda s, f: (
            s.key_by("k")
            .window(ms.tumbling("10s"))
            .process(Windowed(f, "process"), OUT, uid="subject")
        ),
        is_generator=True,
    ),
    Kind(
        "window-reduce",
        "own_reduce",
        lambda s, f: (
            ones(s)
            .key_by("k")
            .window(ms.tumbling("1 day"))
            .reduce(folded(f), uid="subject")
            .select("k", "n")
        ),
        expected=sizes,
    ),
    Kind(
        "session-gap",
        "own_gap",
        lambda s, f: (
            s.key_by("k").window(ms.session(gap(f))).process(Windowed(f, ""), OUT, uid="subject")
        ),
    ),
)

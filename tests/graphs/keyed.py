"""Steps over the rows of a key: functions with state and timers, aggregates, and what is kept."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import mainstay as ms
from tests.graphs.operators import Checks, Flow, Kind, Params, kind
from tests.graphs.rows import KEYS, ROW, Row, grouped, of_rows, text_of


class Tally(ms.KeyedProcess):
    """Keeps all rows of a key in states of every kind, and passes them on."""

    count = ms.ReducingState("long", operator.add)
    rows = ms.ListState("struct<id:long,x:double,at:timestamp>")
    by_n = ms.MapState("string", "long")
    largest = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.add(1)
        self.rows.add((row.id, row.x, row.at))
        self.by_n.put(str(row.n), (self.by_n.get(str(row.n)) or 0) + 1)
        if (self.largest.get() or 0) < row.id:
            self.largest.update(row.id)
        yield tuple(row)


def tallied(uid: str, rows: Iterable[Row], key: str) -> dict[tuple[str, str], Any]:
    """What the states of a tally hold, of which lists are in no order."""
    groups = grouped(rows, key)
    return {
        (uid, "count"): {key: len(rows) for key, rows in groups.items()},
        (uid, "rows"): {
            key: of_rows((row[0], row[3], row[4]) for row in rows) for key, rows in groups.items()
        },
        (uid, "by_n"): {
            key: dict(Counter(str(row[2]) for row in rows)) for key, rows in groups.items()
        },
        (uid, "largest"): {
            key: max(row[0] for row in rows)
            for key, rows in groups.items()
            if max(row[0] for row in rows) > 0
        },
    }


class BatchTally(ms.KeyedBatchProcess):
    """Counts rows by batches."""

    count = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        more = [group.num_rows for _, group in batch.groups()]
        before = self.count.get_many(batch.keys)
        self.count.put_many(
            batch.keys, [(old or 0) + n for old, n in zip(before, more, strict=True)]
        )
        return batch.batch


class _Keyed(Kind):
    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"key": random.choice(sorted(KEYS))}


@kind("tally")
class Tallied(_Keyed):
    weight = 4

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [flows[0]]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        return Checks(tallied(uid, flows[0].rows, params["key"]))

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        keyed = KEYS[params["key"]](streams[0])
        return [keyed.process(Tally(), ROW, uid=uid, **settings)]


@kind("batch_tally")
class BatchTallied(_Keyed):
    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [flows[0]]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        groups = grouped(flows[0].rows, params["key"])
        return Checks({(uid, "count"): {key: len(rows) for key, rows in groups.items()}})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        keyed = KEYS[params["key"]](streams[0])
        return [keyed.process_batches(BatchTally(), ROW, uid=uid, **settings)]


class Alarm(ms.KeyedProcess):
    """A timer for a second after each row; rows of one time share it."""

    held = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> None:
        self.held.update(1)
        if row.at is not None:
            ctx.timers.event_time(row.at + timedelta(seconds=1))

    def on_timer(self, at: Any, ctx: Any) -> Any:
        yield 1, text_of(ctx.key), 0, None, at


@kind("alarm")
class Alarmed(_Keyed):
    """One row for each key and second in which it has rows, when event time has come there."""

    def fits(self, flows: Sequence[Flow]) -> bool:
        return flows[0].is_timed and flows[0].has_mark and not flows[0].behind_s

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        times = {
            (text_of(key), row[4] + timedelta(seconds=1))
            for key, rows in grouped(flows[0].rows, params["key"]).items()
            for row in rows
            if row[4] is not None
        }
        return [flows[0].keyed([(1, key, 0, None, time) for key, time in times])]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        return Checks({(uid, "held"): dict.fromkeys(grouped(flows[0].rows, params["key"]), 1)})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        keyed = KEYS[params["key"]](streams[0])
        return [keyed.process(Alarm(), ROW, uid=uid, **settings)]


@kind("first_of_key")
class FirstOfKey(_Keyed):
    """Which row is the first is not defined, but that there is one of each key is."""

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        keys = grouped(flows[0].rows, params["key"])
        return [flows[0].without_time([(1, text_of(key), 0, None, None) for key in keys])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        key = KEYS[params["key"]]
        first = key(streams[0]).deduplicate(uid=uid, **settings)
        return [first.map(lambda row: (1, text_of(key.of(tuple(row))), 0, None, None), ROW)]


@kind("running_reduce")
class RunningReduce(_Keyed):
    """A row out for each row in; what it holds depends on the order, but the state does not."""

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        rows = [(1, None, 0, None, None) for _ in flows[0].rows]
        return [flows[0].without_time(rows)]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        groups = grouped(flows[0].rows, params["key"])
        held = {key: sum(row[0] for row in rows) for key, rows in groups.items()}
        return Checks({(uid, "reduced", "id"): held})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        keyed = KEYS[params["key"]](streams[0])
        reduced = keyed.reduce(lambda a, b: (a.id + b.id, *tuple(b)[1:]), uid=uid, **settings)
        return [reduced.map(lambda row: (1, None, 0, None, None), ROW)]


# ---------------------------------------------------------------- results that grow


class _Growing(_Keyed):
    """Emits rows that grow, so that the greatest of each key is the last one."""

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return []


@kind("aggregate")
class Aggregated(_Growing):
    weight = 2

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        groups = grouped(flows[0].rows, params["key"])
        expected = {}
        for key, rows in groups.items():
            numbers = [row[2] for row in rows if row[2] is not None]
            low, high = (min(numbers), max(numbers)) if numbers else (None, None)
            expected[text_of(key)] = (len(rows), sum(row[0] for row in rows), low, high)
        return Checks(greatest={f"{uid}-out": expected})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        found = KEYS[params["key"]](streams[0]).aggregate(
            c_=ms.count(), s_=ms.sum("id"), l_=ms.min("n"), h_=ms.max("n"), uid=uid, **settings
        )
        grown = found.map(_grown, "k string, c_ long, s_ long, l_ long, h_ long")
        grown.sink(ms.connectors.Memory(), uid=f"{uid}-out")
        return []


def _grown(row: Any) -> Row:
    *key, count, total, low, high = tuple(row)
    return text_of(key[0] if len(key) == 1 else tuple(key)), count, total, low, high


@kind("top")
class Top(_Growing):
    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        expected = {}
        for key, rows in grouped(flows[0].rows, params["key"]).items():
            best = sorted((row[0] for row in rows), reverse=True)[:3]
            for rank, number in enumerate(best, 1):
                expected[f"{text_of(key)} {rank}"] = (number,)
        return Checks(greatest={f"{uid}-out": expected})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        key = KEYS[params["key"]]
        best = key(streams[0]).top(3, by="id", uid=uid, **settings)

        def shown(row: Any) -> Row:
            found = tuple(row)[-6:]
            return f"{text_of(key.of(found[:5]))} {found[5]}", found[0]

        best.map(shown, "k string, id long").sink(ms.connectors.Memory(), uid=f"{uid}-out")
        return []


@kind("last_of_key")
class LastOfKey(_Growing):
    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        groups = grouped(flows[0].rows, params["key"])
        expected = {text_of(key): (max(row[0] for row in rows),) for key, rows in groups.items()}
        return Checks(greatest={f"{uid}-out": expected})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        key = KEYS[params["key"]]
        last = key(streams[0]).deduplicate("last", by="id", uid=uid, **settings)
        shown = last.map(lambda row: (text_of(key.of(tuple(row))), row.id), "k string, id long")
        shown.sink(ms.connectors.Memory(), uid=f"{uid}-out")
        return []

"""Steps that make rows of single rows: maps, filters, routes, side outputs and loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from tests.graphs.operators import Checks, Flow, Kind, Params, kind
from tests.graphs.rows import ROW, Row, of_rows, plain


def _more(row: Any) -> Row:
    return (row[0], row[1], None if row[2] is None else row[2] + 1, row[3], row[4])


def _rekeyed(row: Any) -> Row:
    return (row[0], None if row[0] % 7 == 0 else f"r{row[0] % 3}", *tuple(row)[2:])


def _later(row: Any) -> Row:
    return (*tuple(row)[:4], None if row[4] is None else row[4] + timedelta(seconds=row[0] % 3))


MAPS: dict[str, Callable[[Any], Row]] = {
    "same": tuple,
    "more": _more,
    "rekeyed": _rekeyed,
    "later": _later,
}


@kind("map")
class Map(Kind):
    weight = 4

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"of": random.choice(sorted(MAPS))}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [flows[0].with_rows([MAPS[params["of"]](row) for row in flows[0].rows])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        return [streams[0].map(MAPS[params["of"]], ROW, uid=uid, **settings)]


async def _asked(row: Any) -> Row:
    return _more(row)


@kind("map_async")
class MapAsync(Kind):
    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"ordered": random.random() < 0.5, "capacity": random.choice([1, 5, 100])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [flows[0].with_rows([_more(row) for row in flows[0].rows])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        return [streams[0].map_async(_asked, ROW, uid=uid, **params, **settings)]


def _one_more(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(2, batch.schema.field(2), pc.add(batch.column(2), 1))


@kind("columns")
class Columns(Kind):
    """What is said of columns instead of rows."""

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"by": random.choice(["with_columns", "map_batches", "select", "rename", "drop"])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        changes = params["by"] in ("with_columns", "map_batches")
        rows = [_more(row) if changes else row for row in flows[0].rows]
        if params["by"] == "drop":
            rows = [(*row[:3], None, row[4]) for row in rows]
        return [flows[0].with_rows(rows)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        (stream,), settings = streams, {"uid": uid, **settings}
        match params["by"]:
            case "with_columns":
                return [stream.with_columns(n=ms.col("n") + 1, **settings)]
            case "map_batches":
                return [stream.map_batches(_one_more, ROW, **settings)]
            case "select":
                turned = stream.select("at", "x", "n", "k", "id", **settings)
                return [turned.select("id", "k", "n", "x", "at")]
            case "rename":
                renamed = stream.rename(at="n", n="at", **settings)
                return [renamed.rename(at="n", n="at")]
        dropped = stream.drop("x", **settings)
        return [dropped.map(lambda row: (row.id, row.k, row.n, None, row.at), ROW)]


def _in_batch(batch: pa.RecordBatch) -> Any:
    return pc.not_equal(pc.bit_wise_and(batch.column(0), 3), 0)


@kind("filter")
class Filter(Kind):
    weight = 3

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"by": random.choice(["function", "expression", "batches"])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        kept = {
            "function": lambda row: row[0] % 3,
            "expression": lambda row: row[2] is not None and row[2] < 3,
            "batches": lambda row: row[0] & 3,
        }[params["by"]]
        return [flows[0].with_rows([row for row in flows[0].rows if kept(row)])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        if params["by"] == "batches":
            return [streams[0].filter_batches(_in_batch, uid=uid, **settings)]
        by = (lambda row: row.id % 3) if params["by"] == "function" else ms.col("n") < 3
        return [streams[0].filter(by, uid=uid, **settings)]


def _several(row: Any) -> list[Row]:
    return [(row[0], row[1], number, row[3], row[4]) for number in range(row[0] % 3)]


@kind("flat_map")
class FlatMap(Kind):
    weight = 2

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [flows[0].with_rows([each for row in flows[0].rows for each in _several(row)])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        return [streams[0].flat_map(_several, ROW, uid=uid, **settings)]


@kind("route")
class Route(Kind):
    """Another way to the next operator, which is a map."""

    weight = 2

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"by": random.choice(["rebalance", "unchained", "partition_by", "chain"])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [flows[0]]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        (stream,) = streams
        match params["by"]:
            case "partition_by":
                stream = stream.partition_by("id")
            case "chain":
                settings = {**settings, "chain": False}
            case routed:
                stream = getattr(stream, routed)()
        return [stream.map(tuple, ROW, uid=uid, **settings)]


@kind("deep")
class Deep(Kind):
    """Many operators in a row, which are one chain or several."""

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"count": random.choice([6, 30])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        rows: Sequence[Row] = flows[0].rows
        for _ in range(params["count"]):
            rows = [_more(row) for row in rows]
        return [flows[0].with_rows(rows)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        (stream,) = streams
        for number in range(params["count"]):
            stream = stream.map(_more, ROW, uid=f"{uid}-{number}", **settings)
        return [stream]


class Divide(ms.Process):
    """Rows by what their id leaves over; all ids are kept in operator state."""

    passed = ms.OperatorListState("long", redistribute="split")
    odd = ms.SideOutput(ROW)
    third = ms.SideOutput(ROW)

    def process(self, row: Any, ctx: Any) -> Any:
        self.passed.add(row.id)
        if row.id % 3 == 0:
            self.third.emit(tuple(row))
        if row.id % 2:
            self.odd.emit(tuple(row))
        else:
            yield tuple(row)


@kind("sides")
class Sides(Kind):
    weight = 2

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        (flow,) = flows
        even, odd = ([row for row in flow.rows if row[0] % 2 == rest] for rest in (0, 1))
        third = [row for row in flow.rows if row[0] % 3 == 0]
        return [flow.with_rows(rows) for rows in (even, odd, third)]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        return Checks({(uid, "passed"): of_rows(row[0] for row in flows[0].rows)})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        even = streams[0].process(Divide(), ROW, uid=uid, **settings)
        return [even, even.side("odd"), even.side("third")]


class Rounds(ms.KeyedProcess):
    """Takes one of the rounds that a row has left, and counts the rows of its key."""

    visits = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.visits.add(1)
        yield (row.id, row.k, row.n - 1, row.x, row.at)


def _with_rounds(row: Any) -> Row:
    return (row[0], row[1], row[0] % 4, row[3], row[4])


@kind("loop")
class Loop(Kind):
    """Each row goes round as often as its id says."""

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        rows = [(*row[:2], -1, *row[3:]) for row in flows[0].rows]
        return [flows[0].without_time(rows)]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        visits: Counter[Any] = Counter()
        for row in flows[0].rows:
            visits[plain(row[1])] += row[0] % 4 + 1
        return Checks({(f"{uid}-rounds", "visits"): dict(visits)})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        def body(head: Any) -> Any:
            stepped = head.key_by("k").process(Rounds(), ROW, uid=f"{uid}-rounds", **settings)
            back = stepped.filter(lambda row: row.n >= 0, uid=f"{uid}-back")
            return back, stepped.filter(ms.col("n") < 0, uid=f"{uid}-on")

        start = streams[0].map(_with_rounds, ROW, uid=f"{uid}-start")
        return [start.iterate(body, uid=uid)]

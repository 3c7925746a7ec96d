"""Steps by event time over one stream: windows of every kind, and windows with their late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import mainstay as ms
from tests.graphs.operators import Flow, Kind, Params, kind
from tests.graphs.rows import KEYS, MODULUS, ROW, Row, grouped, micros, text_of, time_of

SECOND = 1_000_000

WINDOWS: dict[str, Any] = {
    "tumbling": ms.tumbling("4s"),
    "offset": ms.tumbling("5s", offset="-2s"),
    "sliding": ms.sliding("6s", every="2s"),
    "uneven": ms.sliding("5s", every="3s"),
    "gaps": ms.sliding("2s", every="3s"),
    "cumulating": ms.cumulating("6s", every="2s"),
}
_FIXED = {
    "tumbling": (4, 4, 0),
    "offset": (5, 5, -2),
    "sliding": (6, 2, 0),
    "uneven": (5, 3, 0),
    "gaps": (2, 3, 0),
}
GAP_S = 2


def windows_of(name: str, us: int) -> Iterator[tuple[int, int]]:
    """The bounds of all windows of a kind that a time is in."""
    if name == "cumulating":
        start = us // (6 * SECOND) * 6 * SECOND
        ends = (start + n * 2 * SECOND for n in (1, 2, 3))
        yield from ((start, end) for end in ends if us < end)
        return
    size, every, offset = (seconds * SECOND for seconds in _FIXED[name])
    start = (us - offset) // every * every + offset
    while us < start + size:
        yield start, start + size
        start -= every


def sessions_of(rows: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    """The end of each session of a key, and its rows."""
    held: list[Row] = []
    for row in sorted(rows, key=lambda row: row[4]):
        if held and row[4] - held[-1][4] > timedelta(seconds=GAP_S):
            yield micros(held[-1][4]) + GAP_S * SECOND, held
            held = []
        held.append(row)
    if held:
        yield micros(held[-1][4]) + GAP_S * SECOND, held


def result(key: str, end_us: int, rows: Sequence[Row]) -> Row:
    """What aggregates of the rows of a window are, as a row."""
    numbers = [row[2] for row in rows if row[2] is not None]
    spread = max(numbers) - min(numbers) if numbers else None
    floats = [row[3] for row in rows if row[3] is not None]
    total = sum(floats) if floats else None
    return (
        sum(row[0] for row in rows) % MODULUS,
        key,
        len(rows) * 100 + (-1 if spread is None else spread),
        total,
        time_of(end_us - 1),
    )


def as_row(key: str, row: Any) -> Row:
    """The same of what the operator has emitted."""
    spread = -1 if row.h_ is None else row.h_ - row.l_
    end = row.window_end - timedelta(microseconds=1)
    return row.s_ % MODULUS, key, row.c_ * 100 + spread, row.x_, end


def of_rows_in(rows: Sequence[Row], name: str) -> Iterator[tuple[int, list[Row]]]:
    """The windows of a key: the end of each, and its rows."""
    timed = [row for row in rows if row[4] is not None]
    if name == "session":
        yield from sessions_of(timed)
        return
    found: dict[tuple[int, int], list[Row]] = {}
    for row in timed:
        for bounds in windows_of(name, micros(row[4])):
            found.setdefault(bounds, []).append(row)
    yield from ((end, rows) for (_, end), rows in found.items())


class Sums(ms.WindowProcess):
    """The aggregates by a function of all rows."""

    def process(self, rows: Any, window: Any, ctx: Any) -> Any:
        yield result(text_of(ctx.key), micros(window.end), [tuple(row) for row in rows])


AGGREGATES = {
    "c_": ms.count(),
    "s_": ms.sum("id"),
    "l_": ms.min("n"),
    "h_": ms.max("n"),
    "x_": ms.sum("x"),
}


def key_in(row: Any) -> str:
    """The key of what a window has emitted: what is before its bounds, or nothing."""
    values = tuple(row)[: row._fields.index("window_start")]
    return text_of(values[0] if len(values) == 1 else values)


@kind("window")
class Windowed(Kind):
    weight = 5

    def fits(self, flows: Sequence[Flow]) -> bool:
        return flows[0].is_timed and flows[0].has_mark

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        name = random.choice([*WINDOWS, "session", "session"])
        by = random.choice(["aggregate", "aggregate", "process", "updates", "best"])
        key = random.choice([*sorted(KEYS), None])
        if key is None and (name == "session" or by in ("process", "best")):
            key = "k"
        lateness_s = max(random.choice([0, 0, 1, 3]), flows[0].behind_s)
        return {"window": name, "by": by, "key": key, "lateness_s": lateness_s}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        key, (flow,) = params["key"], flows
        groups = {(): list(flow.rows)} if key is None else grouped(flow.rows, key)
        rows = []
        for of, held in groups.items():
            for end, within in of_rows_in(held, params["window"]):
                if params["by"] == "best":
                    best = sorted((row[0] for row in within), reverse=True)[:2]
                    rows += [(number, None, 0, None, time_of(end - 1)) for number in best]
                else:
                    rows.append(result(text_of(of), end, within))
        return [flow.keyed(rows, behind_s=params["lateness_s"])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        (stream,), name = streams, params["window"]
        window = ms.session(f"{GAP_S}s") if name == "session" else WINDOWS[name]
        keyed = stream if params["key"] is None else KEYS[params["key"]](stream)
        if params["key"] is None:
            settings = {k: v for k, v in settings.items() if k != "parallelism"}
        emit = "update" if params["by"] == "updates" else "final"
        windowed = keyed.window(window, on="at", lateness=f"{params['lateness_s']}s", emit=emit)
        settings = {"uid": uid, **settings}
        if params["by"] == "process":
            return [windowed.process(Sums(), ROW, **settings)]
        if params["by"] == "best":
            best = windowed.top(2, by="id", **settings)
            return [best.map(_best, ROW)]
        found = windowed.aggregate(**AGGREGATES, **settings)
        if params["by"] == "updates":
            found = found.filter(ms.col("is_final"))
        return [found.map(lambda row: as_row(key_in(row), row), ROW)]


def _best(row: Any) -> Row:
    return row.id, None, 0, None, row.window_end - timedelta(microseconds=1)


@kind("count_window")
class CountWindow(Kind):
    """Which rows are in one is not defined, but how many are is."""

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        size, every = random.choice([(1, None), (3, None), (4, 2), (2, 3)])
        return {"key": random.choice(sorted(KEYS)), "size": size, "every": every}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        size, every = params["size"], params["every"] or params["size"]
        rows = [
            (1, None, min(size, number * every), None, None)
            for held in grouped(flows[0].rows, params["key"]).values()
            for number in range(1, len(held) // every + 1)
        ]
        return [flows[0].without_time(rows)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        windowed = KEYS[params["key"]](streams[0]).window(ms.rows(params["size"], params["every"]))
        found = windowed.aggregate(c_=ms.count(), uid=uid, **settings)
        return [found.map(lambda row: (1, None, row.c_, None, None), ROW)]


@kind("late_window")
class LateWindow(Kind):
    """Each row is in one window or late, whatever event time does meanwhile."""

    def fits(self, flows: Sequence[Flow]) -> bool:
        return flows[0].has_mark

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"key": random.choice(sorted(KEYS)), "gap": random.random() < 0.5}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        rows = [(row[0], None, 0, None, None) for row in flows[0].rows]
        return [flows[0].without_time(rows)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        window = ms.session("2s") if params["gap"] else ms.tumbling("3s")
        windowed = KEYS[params["key"]](streams[0]).window(window, on="at")
        taken = windowed.aggregate(ids=ms.collect("id"), uid=uid, **settings)
        late = taken.late.map(lambda row: (row.id, None, 0, None, None), ROW)
        each = taken.flat_map(lambda row: [(n, None, 0, None, None) for n in row.ids], ROW)
        return [each.union(late)]

"""Joins of drawn rows, out of order, with what DuckDB says of the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from mainstay.connectors.memory import Memory
from mainstay.schema import to_schema
from mainstay.state.subtask import KeyedSubtask
from mainstay.testing import Watermark, crash, rows, snapshot
from mainstay.testing import run as run_in_simulation
from mainstay.testing.run import Result

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
LEFT, RIGHT = "k string, n long, made timestamp", "id string, m long, seen timestamp"
DELAY_S = 4
LEFT_ROWS = RIGHT_ROWS = 160


def run(*arguments: Any, **options: Any) -> Result:
    """A run in which sources tell a watermark after each batch: otherwise it is over before."""
    with patch("mainstay.runtime.watermarks.EVERY_S", 0.0):
        return run_in_simulation(*arguments, **options)


@contextmanager
def merged_soon() -> Iterator[None]:
    """Segments are merged as soon as there are two, and not when there are many."""
    right = KeyedSubtask.compact
    with patch.object(KeyedSubtask, "compact", lambda self, longest: right(self, 1)):
        yield


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Case:
    """A join, and the same in SQL. ``left`` and ``right`` are the rows of the two sides."""

    name: str
    options: Mapping[str, Any]
    sql: str
    states: tuple[str, ...] = ("left", "right")


PAIRS = "l.k = r.id and r.seen - l.made between interval (-3) seconds and interval 2 seconds"
BOTH = "coalesce(k, id), n, made, m, seen"
WITHIN = {"within": ms.interval("-3s", "2s")}
ORIGIN = "timestamptz '1970-01-01 00:00:00+00'"
SLICED = "(select *, time_bucket(interval 5 seconds, {}, " + ORIGIN + ") w from {})"
WINDOWS = f"{SLICED.format('made', 'l')} l {{}} join {SLICED.format('seen', 'r')} r"
WINDOWS += " on l.k = r.id and l.w = r.w"
BOUNDS = "coalesce(l.w, r.w), coalesce(l.w, r.w) + interval 5 seconds"


ENDS = "(select k, n, made, made + to_seconds(n % 7 - 1) as until from l)"
OPEN = "l.k = r.id and r.seen between l.made - interval 2 seconds and l.until"
UNTIL = {"within": ms.interval("-2s", ms.col("until"))}
BOTH_UNTIL = "k, n, made, until, m, seen"


def until(lefts: ms.Stream, shortest_s: int = -1) -> ms.Stream:
    """Left rows that say until when they match; some end before they begin."""
    seconds = pc.field("n") - pc.scalar(7) * pc.divide(pc.field("n"), 7) + pc.scalar(shortest_s)
    length = (seconds * pc.scalar(1_000_000)).cast(pa.duration("us"))
    return lefts.with_columns(until=pc.add(pc.field("made"), length))


def _until(how: str, sql: str) -> Case:
    matched = ("left_matched",) if how != "inner" else ()
    return Case(f"until-{how}", {**UNTIL, "how": how}, sql, ("left", "right", *matched))


def _interval(how: str, sql: str) -> Case:
    matched = ("left_matched",) if how in ("left", "full", "semi", "anti") else ()
    matched += ("right_matched",) if how in ("right", "full") else ()
    return Case(f"interval-{how}", {**WITHIN, "how": how}, sql, ("left", "right", *matched))


CASES = {
    case.name: case
    for case in (
        _interval("inner", f"select {BOTH} from l join r on {PAIRS}"),
        _interval("left", f"select {BOTH} from l left join r on {PAIRS}"),
        _interval("right", f"select {BOTH} from l right join r on {PAIRS}"),
        _interval("full", f"select {BOTH} from l full join r on {PAIRS}"),
        _interval("semi", f"select * from l where exists (select 1 from r where {PAIRS})"),
        _interval("anti", f"select * from l where not exists (select 1 from r where {PAIRS})"),
        _until("inner", f"select {BOTH_UNTIL} from {ENDS} l join r on {OPEN}"),
        _until("left", f"select {BOTH_UNTIL} from {ENDS} l left join r on {OPEN}"),
        _until("semi", f"select * from {ENDS} l where exists (select 1 from r where {OPEN})"),
        _until("anti", f"select * from {ENDS} l where not exists (select 1 from r where {OPEN})"),
        *(
            Case(
                f"window-{how}",
                {"window": ms.tumbling("5s"), "how": how},
                f"select {BOTH}, {BOUNDS} from {WINDOWS.format(how)}",
            )
            for how in ("inner", "left", "right", "full")
        ),
        Case(
            "as-of-left",
            {"as_of": "left", "how": "left"},
            "select k, n, made, m, seen from l asof left join r on l.k = r.id and l.made >= r.seen",
            ("left", "right"),
        ),
        Case(
            "as-of-inner-with-an-age",
            {"as_of": "left", "how": "inner", "max_age": "3s"},
            "select k, n, made, m, seen from l asof join r on l.k = r.id and l.made >= r.seen "
            "where made - seen <= interval 3 seconds",
        ),
        Case(
            "regular-inner",
            {"keep": "forever", "how": "inner"},
            "select k, n, made, m, seen from l join r on l.k = r.id",
            (),
        ),
        Case(
            "regular-semi",
            {"keep": "forever", "how": "semi"},
            "select * from l where k in (select id from r where id is not null)",
            (),
        ),
    )
}


def drawn(seed: int, count: int, first: int, *, distinct: bool = False) -> list[tuple[Any, ...]]:
    """Rows of one side whose times rise, but for up to the delay. Some have no key."""
    draw = np.random.default_rng([seed, first])
    true = np.sort(draw.uniform(0, 40, count).round(1))
    order = np.argsort(true + draw.uniform(0, DELAY_S - 0.2, count), kind="stable")
    keys = [None if draw.random() < 0.03 else f"k{draw.integers(6)}" for _ in range(count)]
    found = [(keys[n], first + int(n), at(float(true[n]))) for n in order]
    if not distinct:
        return found
    seen: set[Any] = set()
    return [row for row in found if not ((row[0], row[2]) in seen or seen.add((row[0], row[2])))]  # type: ignore[func-returns-value]


def inputs(case: Case, seed: int) -> tuple[list[Any], list[Any]]:
    # Which of two right rows of one time is the newest DuckDB does not say.
    is_as_of = "as_of" in case.options
    left = drawn(seed, LEFT_ROWS, 0)
    return left, drawn(seed, RIGHT_ROWS, 10_000, distinct=is_as_of)


def build(case: Case, left: list[Any], right: list[Any], *, idle: bool = False) -> Any:
    def program(env: ms.Environment) -> None:
        mark = {"delay": f"{DELAY_S}s", **({"idle": "1ms"} if idle else {})}
        lefts = env.source(
            rows(LEFT, left, splits=2), uid="lefts", watermark=ms.Watermark("made", **mark)
        )
        rights = env.source(
            rows(RIGHT, right, splits=3), uid="rights", watermark=ms.Watermark("seen", **mark)
        )
        if case.name.startswith("until"):
            lefts = until(lefts)
        joined = lefts.key_by("k").join(rights.key_by("id"), uid="join", **case.options)
        joined.sink(Memory(), uid="out")
        if "keep" not in case.options:
            joined.late_left.sink(Memory(), uid="late-left")
            joined.late_right.sink(Memory(), uid="late-right")

    return program


def expected(case: Case, left: list[Any], right: list[Any]) -> Counter[Any]:
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for name, schema, given in (("l", LEFT, left), ("r", RIGHT, right)):
            columns = zip(*given, strict=True)
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(columns, to_schema(schema), strict=True)
            ]
            database.register(name, pa.table(arrays, schema=to_schema(schema)))
        found = database.sql(case.sql).to_arrow_table()
    return Counter(tuple(row.values()) for row in found.to_pylist())


def went(case: Case, seed: int, **how: Any) -> tuple[Result, Counter[Any], Counter[Any]]:
    """A run, what it committed, and what it should have."""
    idle = how.pop("idle", False)
    left, right = inputs(case, seed)
    result = run(build(case, left, right, idle=idle), seed=seed, **how)
    return result, Counter(result.output("out")), expected(case, left, right)


# ---------------------------------------------------------------- many epochs


def with_many_epochs(seed: int) -> tuple[Result, Counter[Any], Counter[Any]]:
    """A full join that is cut every few rows, whose segments are merged, and which crashes: panes
    die and come back into files in all ways there are."""
    case, draw = CASES["interval-full"], np.random.default_rng([seed, 7])
    sides = {"lefts": drawn(seed, 24, 0), "rights": drawn(seed, 24, 10_000)}
    elements: list[Any] = []
    for number in range(24):
        elements += [(name, given[number]) for name, given in sides.items()]
        for name, given in sides.items():
            newest = max(row[2] for row in given[: number + 1])
            elements.append((name, Watermark(newest - timedelta(seconds=DELAY_S))))
        if draw.random() < 0.6:
            elements.append(("lefts", crash() if draw.random() < 0.2 else snapshot()))
    with merged_soon():
        result = run(
            build(case, [], []), elements, parallelism=1 + seed % 2, seed=seed, rescales=(3,)
        )
    return result, Counter(result.output("out")), expected(case, *sides.values())


# ---------------------------------------------------------------- a window behind an outer join


def behind_an_outer_join(seed: int, **how: Any) -> tuple[Counter[Any], Counter[Any]]:
    """The left rows that a window behind a left join has taken, and all of them."""
    left, right = drawn(seed, LEFT_ROWS, 0), drawn(seed, RIGHT_ROWS, 10_000)

    def program(env: ms.Environment) -> None:
        times = {"left": ("made", LEFT, left), "right": ("seen", RIGHT, right)}
        lefts, rights = (
            env.source(rows(schema, given, splits=2), uid=uid, watermark=_mark(column))
            for uid, (column, schema, given) in times.items()
        )
        joined = lefts.key_by("k").join(rights.key_by("id"), uid="join", **WITHIN, how="left")
        windowed = joined.key_by("k").join(
            rights.key_by("id"),
            window=ms.tumbling("1s"),
            on=("made", "seen"),
            how="left",
            suffix="_2",
            uid="windowed",
        )
        windowed.sink(Memory(), uid="out")

    result = run(program, seed=seed, **how)
    found = Counter(row[1] for row in {row[1]: row for row in result.output("out")}.values())
    return found, Counter(n for _, n, _ in left)


def behind_an_until_join(seed: int, **how: Any) -> tuple[Counter[Any], Counter[Any]]:
    """The left rows, by end, that windows behind a left join have counted, and all of them."""
    left = drawn(seed, LEFT_ROWS, 0)
    right = [(f"not {key}", *rest) for key, *rest in drawn(seed, RIGHT_ROWS, 10_000)]

    def program(env: ms.Environment) -> None:
        lefts = env.source(rows(LEFT, left, splits=2), uid="left", watermark=_mark("made"))
        rights = env.source(rows(RIGHT, right, splits=2), uid="right", watermark=_mark("seen"))
        joined = (
            until(lefts, 0).key_by("k").join(rights.key_by("id"), **UNTIL, how="left", uid="join")
        )
        # The end is the time of the results, which need no on= for that.
        counts = joined.window(ms.tumbling("1s")).aggregate(n=ms.count(), uid="counts")
        counts.select("window_start", "n").sink(Memory(), uid="out")

    result = run(program, seed=seed, **how)
    ends = [made + timedelta(seconds=n % 7) for _, n, made in left]
    wanted = Counter(end.replace(microsecond=0) for end in ends)
    return Counter(dict(result.output("out"))), wanted


def _mark(column: str) -> ms.Watermark:
    return ms.Watermark(column, delay=f"{DELAY_S}s")


# ---------------------------------------------------------------- rows on the very bounds


def on_the_bounds(seed: int) -> tuple[Counter[Any], Counter[Any]]:
    """Left rows at the end of a pane, and right ones that are as late and as far as they may be."""
    edge, count = 0.999999, 60
    left, right = [], []
    for base in range(0, 20 * count, 20):
        left += [("a", base, at(base + 4 + edge)), ("x", -1, at(base + 10 + edge))]
        right += [("y", -1, at(base + 10 + edge)) for _ in range(12)]
        right += [("a", base, at(base + 6 + edge))]
    case = Case("", WITHIN, "")

    def program(env: ms.Environment) -> None:
        sources = [("lefts", "made", LEFT, left), ("rights", "seen", RIGHT, right)]
        lefts, rights = (
            env.source(rows(schema, given), uid=uid, watermark=_mark(column))
            for uid, column, schema, given in sources
        )
        joined = lefts.key_by("k").join(rights.key_by("id"), uid="join", **case.options)
        joined.sink(Memory(), uid="out")

    result = run(program, seed=seed, parallelism=1)
    found = Counter((n, m) for _, n, _, m, _ in result.output("out"))
    return found, Counter((base, base) for base in range(0, 20 * count, 20))

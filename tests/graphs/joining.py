"""Steps that join two streams, which may be the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import mainstay as ms
from tests.graphs.operators import Flow, Kind, Params, kind
from tests.graphs.rows import KEYS, MODULUS, NAMES, ROW, Row, micros, plain, time_of
from tests.graphs.windows import WINDOWS, windows_of

RIGHT = "r_"
HOWS = ("inner", "left", "right", "full", "semi", "anti")
INTERVALS = {"near": (-2, 3), "before": (-4, -1), "same": (0, 0)}
Pair = tuple[Row | None, Row | None]


def matching_key(row: Row, key: str) -> Any:
    """The key as joins compare it: None where a part of it is null, which matches nothing."""
    found = plain(KEYS[key].of(row))
    parts = found if isinstance(found, tuple) else (found,)
    return None if None in parts else found


def pairs(
    left: Iterable[Row], right: Iterable[Row], how: str, match: Callable[[Row, Row], bool]
) -> Iterator[Pair]:
    """What a join of one kind gives of complete sides."""
    lefts, rights = list(left), list(right)
    matched = [[other for other in rights if match(row, other)] for row in lefts]
    for row, others in zip(lefts, matched, strict=True):
        if how in ("semi", "anti"):
            if bool(others) == (how == "semi"):
                yield row, None
            continue
        yield from ((row, other) for other in others)
        if not others and how in ("left", "full"):
            yield row, None
    if how in ("right", "full"):
        alone = (row for row in rights if not any(match(other, row) for other in lefts))
        yield from ((None, row) for row in alone)


def joined_row(key: str, left: Row | None, right: Row | None, us: int | None = None) -> Row:
    """One row of a pair. Where the key is of columns, it is that of whichever side is there."""
    shown = dict(zip(NAMES, left or (None,) * len(NAMES), strict=True))
    if left is None and right is not None:
        shown |= {name: right[NAMES.index(name)] for name in KEYS[key].columns}
    known = (left or right or ())[4]
    ids = ((left or (0,))[0] * 31 + (right or (0,))[0]) % MODULUS
    time = known if us is None else time_of(us - 1)
    return ids, shown["k"], 0 if right is None else right[0] % 7, shown["x"], time


def as_row(row: Any) -> Row:
    """The same of what a join has emitted."""
    has_right = hasattr(row, "r_id")
    right = row.r_id if has_right else None
    ids = ((row.id or 0) * 31 + (right or 0)) % MODULUS
    time = row.at if row.id is not None or not has_right else _right_time(row)
    if hasattr(row, "window_end"):
        time = row.window_end - timedelta(microseconds=1)
    return ids, row.k, 0 if right is None else right % 7, row.x, time


def _right_time(row: Any) -> Any:
    return row.r_at if hasattr(row, "r_at") else row.at


def with_other_names(stream: Any) -> Any:
    return stream.rename({name: f"{RIGHT}{name}" for name in NAMES})


def _timed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row[4] is not None]


def _same_key(key: str) -> Callable[[Row, Row], bool]:
    def match(left: Row, right: Row) -> bool:
        found = matching_key(left, key)
        return found is not None and found == matching_key(right, key)

    return match


class _Join(Kind):
    arity = 2
    weight = 3

    def fits(self, flows: Sequence[Flow]) -> bool:
        is_known = any(flow.has_mark for flow in flows)
        return is_known and all(flow.is_timed and not flow.behind_s for flow in flows)

    def _flow(self, flows: Sequence[Flow], rows: Sequence[Row]) -> Flow:
        return flows[0].keyed(rows, has_mark=True)

    def sides(self, key: str, streams: Sequence[Any]) -> tuple[Any, Any]:
        left, right = streams
        return KEYS[key](left), KEYS[key](with_other_names(right), RIGHT)


@kind("interval_join")
class IntervalJoin(_Join):
    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {
            "key": random.choice(sorted(KEYS)),
            "how": random.choice(HOWS),
            "within": random.choice(sorted(INTERVALS)),
        }

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        key, (lower, upper) = params["key"], INTERVALS[params["within"]]
        is_same = _same_key(key)

        def match(left: Row, right: Row) -> bool:
            apart = right[4] - left[4]
            near = timedelta(seconds=lower) <= apart <= timedelta(seconds=upper)
            return near and is_same(left, right)

        found = pairs(_timed(flows[0].rows), _timed(flows[1].rows), params["how"], match)
        return [self._flow(flows, [joined_row(key, *pair) for pair in found])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        left, right = self.sides(params["key"], streams)
        lower, upper = (f"{bound}s" for bound in INTERVALS[params["within"]])
        joined = left.join(
            right,
            how=params["how"],
            within=ms.interval(lower, upper),
            on=("at", f"{RIGHT}at"),
            uid=uid,
            **settings,
        )
        return [joined.map(as_row, ROW)]


@kind("window_join")
class WindowJoin(_Join):
    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {
            "key": random.choice(sorted(KEYS)),
            "how": random.choice(HOWS),
            "window": random.choice(sorted(WINDOWS)),
        }

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        key, rows = params["key"], []
        left, right = ({}, {})  # type: dict[Any, list[Row]], dict[Any, list[Row]]
        for side, flow in zip((left, right), flows, strict=True):
            for row in _timed(flow.rows):
                for bounds in windows_of(params["window"], micros(row[4])):
                    side.setdefault(bounds, []).append(row)
        for bounds in {*left, *right}:
            within = (left.get(bounds, []), right.get(bounds, []))
            found = pairs(*within, params["how"], _same_key(key))
            rows += [joined_row(key, *pair, bounds[1]) for pair in found]
        return [self._flow(flows, rows)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        left, right = self.sides(params["key"], streams)
        joined = left.join(
            right,
            how=params["how"],
            window=WINDOWS[params["window"]],
            on=("at", f"{RIGHT}at"),
            uid=uid,
            **settings,
        )
        return [joined.map(as_row, ROW)]


@kind("as_of_join")
class AsOfJoin(_Join):
    """Of several right rows of one time any may be the newest: only their time is shown."""

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {
            "key": random.choice(sorted(KEYS)),
            "how": random.choice(["inner", "left"]),
            "max_age_s": random.choice([None, 3]),
        }

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        rows, is_same = [], _same_key(params["key"])
        right = _timed(flows[1].rows)
        for row in _timed(flows[0].rows):
            times = [each[4] for each in right if each[4] <= row[4] and is_same(row, each)]
            newest = max(times, default=None)
            limit = params["max_age_s"]
            if newest is not None and limit and row[4] - newest > timedelta(seconds=limit):
                newest = None
            if newest is not None or params["how"] == "left":
                rows.append(_as_of(row, newest))
        return [self._flow(flows, rows)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        left, right = streams
        right = right.with_columns({"since": "at"})
        right = right.rename({name: f"{RIGHT}{name}" for name in NAMES})
        limit = params["max_age_s"]
        joined = KEYS[params["key"]](left).join(
            KEYS[params["key"]](right, RIGHT),
            how=params["how"],
            as_of="left",
            max_age=None if limit is None else f"{limit}s",
            on=("at", f"{RIGHT}at"),
            uid=uid,
            **settings,
        )
        return [joined.map(lambda row: _as_of(tuple(row)[:5], row.since), ROW)]


def _as_of(row: Row, newest: Any) -> Row:
    age = -1 if newest is None else (row[4] - newest) // timedelta(milliseconds=1)
    return row[0], row[1], age, row[3], row[4]


@kind("regular_join")
class RegularJoin(_Join):
    weight = 2

    def fits(self, flows: Sequence[Flow]) -> bool:
        return True

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"key": random.choice(sorted(KEYS)), "how": random.choice(["inner", "semi"])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        key = params["key"]
        found = pairs(flows[0].rows, flows[1].rows, params["how"], _same_key(key))
        return [flows[0].without_time([joined_row(key, *pair) for pair in found])]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        left, right = self.sides(params["key"], streams)
        joined = left.join(right, how=params["how"], keep="forever", uid=uid, **settings)
        return [joined.map(as_row, ROW)]

"""Steps over several streams: unions, connected inputs, and streams that are broadcast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import mainstay as ms
from tests.graphs.keyed import tallied
from tests.graphs.operators import Checks, Flow, Kind, Params, kind
from tests.graphs.rows import KEYS, ROW, Row, of_rows


def together(flows: Sequence[Flow], rows: Sequence[Row]) -> Flow:
    """What is known of rows of several streams."""
    return Flow(
        tuple(rows),
        is_timed=all(flow.is_timed for flow in flows),
        behind_s=max(flow.behind_s for flow in flows),
        has_mark=any(flow.has_mark for flow in flows),
        is_rowwise=all(flow.is_rowwise for flow in flows),
    )


def _all_rows(flows: Sequence[Flow]) -> list[Row]:
    return [row for flow in flows for row in flow.rows]


@kind("union")
class Union(Kind):
    arity = 2
    weight = 3

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [together(flows, _all_rows(flows))]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        return [streams[0].union(*streams[1:])]


@kind("union_of_three")
class UnionOfThree(Union):
    arity = 3
    weight = 1


@kind("fan")
class Fan(Kind):
    """Many branches of one stream, which come together again."""

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"count": random.choice([5, 20])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        count = params["count"]
        rows = [(row[0], f"{row[0] % count}", *row[2:]) for row in flows[0].rows]
        return [flows[0].with_rows(rows)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        count = params["count"]
        branches = [
            streams[0]
            .filter(lambda row, n=number: row.id % count == n, uid=f"{uid}-{number}")
            .map(lambda row, n=number: (row.id, f"{n}", row.n, row.x, row.at), ROW)
            for number in range(count)
        ]
        return [branches[0].union(*branches[1:])]


class Both(ms.CoKeyedProcess):
    """Counts the rows of a key by the side they come from, and passes them on."""

    lefts = ms.ReducingState("long", lambda a, b: a + b)
    rights = ms.ListState("long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.lefts.add(1)
        yield tuple(row)

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.rights.add(row.id)
        yield (row.id, row.k, -1, row.x, row.at)


@kind("connect")
class Connect(Kind):
    arity = 2
    weight = 2

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"key": random.choice(sorted(KEYS))}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        rows = [*flows[0].rows, *((*row[:2], -1, *row[3:]) for row in flows[1].rows)]
        return [together(flows, rows)]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        left, right = (tallied("", flow.rows, params["key"]) for flow in flows)
        rights = {key: of_rows(row[0] for row in rows) for key, rows in right["", "rows"].items()}
        return Checks({(uid, "lefts"): left["", "count"], (uid, "rights"): rights})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        left, right = (KEYS[params["key"]](stream) for stream in streams)
        return [left.connect(right).process(Both(), ROW, uid=uid, **settings)]


class Priced(ms.CoProcess):
    """Each left row with how often its key was among the rows that were broadcast."""

    rates = ms.BroadcastMapState("string", "long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        return row.id, row.k, self.rates.get(str(row.k), 0), row.x, row.at

    def process_right(self, row: Any, ctx: Any) -> None:
        self.rates[str(row.k)] = self.rates.get(str(row.k), 0) + 1


class KeyedPriced(ms.CoKeyedProcess):
    """The same by key."""

    rates = ms.BroadcastMapState("string", "long")
    seen = ms.ReducingState("long", lambda a, b: a + b)

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.seen.add(1)
        return row.id, row.k, self.rates.get(str(row.k), 0), row.x, row.at

    def process_right(self, row: Any, ctx: Any) -> None:
        self.rates[str(row.k)] = self.rates.get(str(row.k), 0) + 1


@kind("broadcast")
class Broadcast(Kind):
    """Left rows wait until all of the right stream was broadcast."""

    arity = 2
    weight = 2

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"key": random.choice([None, *sorted(KEYS)])}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        rates = self._rates(flows)
        rows = [(*row[:2], rates[str(row[1])], *row[3:]) for row in flows[0].rows]
        return [together(flows, rows).keyed(rows)]

    @staticmethod
    def _rates(flows: Sequence[Flow]) -> Counter[str]:
        return Counter(str(row[1]) for row in flows[1].rows)

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        found: dict[tuple[str, ...], Any] = {(uid, "rates", "each"): dict(self._rates(flows))}
        if params["key"] is not None:
            counts = tallied(uid, flows[0].rows, params["key"])[uid, "count"]
            found[uid, "seen"] = counts
        return Checks(found)

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        left, right = streams
        function: Any = Priced()
        if params["key"] is not None:
            left, function = KEYS[params["key"]](left), KeyedPriced()
        both = left.connect(right.broadcast(), wait_for_right=True)
        return [both.process(function, ROW, uid=uid, **settings)]


class Three(ms.MultiProcess):
    """Three inputs of a key, all of which are kept as those of one tally."""

    count = ms.ReducingState("long", lambda a, b: a + b)
    ids = ms.ListState("long")

    def process_a(self, row: Any, ctx: Any) -> Any:
        return self.take(row)

    def process_b(self, row: Any, ctx: Any) -> Any:
        return self.take(row)

    def process_c(self, row: Any, ctx: Any) -> Any:
        return self.take(row)

    def take(self, row: Any) -> Row:
        self.count.add(1)
        self.ids.add(row.id)
        return tuple(row)


@kind("connect_three")
class ConnectThree(Kind):
    arity = 3

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {"key": random.choice(sorted(KEYS))}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return [together(flows, _all_rows(flows))]

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        found = tallied(uid, _all_rows(flows), params["key"])
        ids = {key: of_rows(row[0] for row in rows) for key, rows in found[uid, "rows"].items()}
        return Checks({(uid, "count"): found[uid, "count"], (uid, "ids"): ids})

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        a, b, c = (KEYS[params["key"]](stream) for stream in streams)
        return [env.connect(a=a, b=b, c=c).process(Three(), ROW, uid=uid, **settings)]

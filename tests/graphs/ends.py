"""Where random graphs begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import mainstay as ms
from tests.graphs.operators import Flow, Kind, Params, kind
from tests.graphs.rows import DELAY_S, ROW, Row, drawn_rows
from tests.simulation.ends import CoarseRows


def rows_of(params: Params) -> list[Row]:
    """The rows of a source, which are drawn again from what its step says."""
    return drawn_rows(Random(params["seed"]), params["count"], params["first"])


@kind("source")
class Source(Kind):
    arity = 0
    weight = 0

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {
            "seed": random.randrange(1_000_000),
            "count": random.choice([0, 1, 8, 16, 24]),
            "splits": random.choice([1, 1, 2, 3]),
            "delay_s": random.choice([None, 0, DELAY_S, DELAY_S, DELAY_S]),
        }

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        # Where nothing is said of event time it stands still until all is read: no row is late.
        delay = params["delay_s"]
        rows = tuple(rows_of(params))
        return [Flow(rows, is_timed=delay != 0, has_mark=delay is not None)]

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        delay = params["delay_s"]
        if delay is not None:
            settings = {**settings, "watermark": ms.Watermark("at", delay=f"{delay}s")}
        rows = CoarseRows(ROW, rows_of(params), splits=params["splits"])
        return [env.source(rows, uid=uid, **settings)]


@kind("sink")
class Sink(Kind):
    weight = 0

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        return []

    def build(
        self, env: Any, uid: str, params: Params, streams: Sequence[Any], settings: Any
    ) -> list[Any]:
        streams[0].sink(ms.connectors.Memory(), uid=uid, **settings)
        return []

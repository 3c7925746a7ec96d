"""The job of the demonstration: a running total for every customer."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from mainstay.api.environment import Environment
from mainstay.api.functions import KeyedProcess
from mainstay.runtime.connector import Sink, Source
from mainstay.state.declaration import ReducingState, ValueState

SOURCE, TOTALS, OUT = "orders", "totals", "out"
OUTPUT = "number long, customer string, total long"


class RunningTotal(KeyedProcess):
    """What each customer has spent, and in how many orders."""

    total = ReducingState("long", operator.add)
    count = ValueState("long")

    def process(self, row: Any, ctx: Any) -> Iterator[tuple[int, str, int]]:
        self.total.add(row.amount)
        self.count.update((self.count.get() or 0) + 1)
        yield row.number, ctx.key, self.total.get()


def build(env: Environment, source: Source, sink: Sink) -> None:
    """Write the job into an environment."""
    (
        env.source(source, uid=SOURCE)
        .key_by("customer")
        .process(RunningTotal(), OUTPUT, uid=TOTALS)
        .sink(sink, uid=OUT)
    )

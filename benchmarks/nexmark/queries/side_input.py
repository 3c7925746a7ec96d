"""Bids with a value of a side input, which every subtask has a copy of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs
from benchmarks.nexmark.sources import SIDE_ROWS

BID = "auction long, bidder long, price long, at timestamp"


def q13(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    joined = inputs["bid"].connect(inputs["side"].broadcast())
    return joined.process(WithValue(), f"{BID}, value string", uid="with-value")


class WithValue(ms.CoKeyedProcess):
    """Bids that come before the side input is complete wait for its last row."""

    values = ms.OperatorListState("struct<key:long,value:string>", redistribute="broadcast")
    waiting = ms.OperatorListState(f"struct<{BID.replace(' ', ':').replace(',:', ',')}>")

    def open(self, ctx: Any) -> None:
        # The states are lists. A bid is looked up in this, which an attempt makes anew.
        self.by_key = dict(self.values.get())

    def process_left(self, bid: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        if len(self.by_key) < SIDE_ROWS:
            self.waiting.add(bid)
        else:
            yield self.with_value(bid)

    def process_right(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        self.values.add(row)
        self.by_key[row.key] = row.value
        if len(self.by_key) == SIDE_ROWS:
            yield from map(self.with_value, self.waiting.get())
            self.waiting.clear()

    def with_value(self, bid: Any) -> tuple[Any, ...]:
        return (*bid, self.by_key[bid.auction % SIDE_ROWS])

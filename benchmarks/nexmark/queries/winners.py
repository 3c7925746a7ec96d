"""Queries of winning bids, which are known when an auction has expired."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs

LAST = 10
"""The mean of a seller is one of so many auctions."""


def q4(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    won = ended(bids_of_auctions(inputs), "id", "category").aggregate(
        price=ms.max("price"), uid="winners"
    )
    totals = won.key_by("category").aggregate(
        prices=ms.sum("price"), auctions=ms.count(), uid="categories"
    )
    # Whole numbers that are not negative: the quotient is rounded down.
    return totals.select("category", mean_price=pc.divide(pc.field("prices"), pc.field("auctions")))


def q9(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    bids = bids_of_auctions(inputs).rename(at_of_bid="bid_at", extra_of_bid="bid_extra")
    row = [name for name in bids.schema.names if name not in ("id", "seq")]
    # The highest price wins, and of the same price the bid with the lowest number.
    best = ms.max_by(["price", ms.col("seq").asc()], row)
    won = ended(bids, "id").aggregate(row=best, uid="winners")
    return won.select("id", *(f"row.{name}" for name in row))


def q6(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    won = ended(bids_of_auctions(inputs), "id", "seller").aggregate(
        price=ms.max("price"), expires=ms.max("expires"), uid="winners"
    )
    schema = "seller long, auction long, mean_price long"
    return won.key_by("seller").process(LastTen(), schema, uid="last-ten")


def bids_of_auctions(inputs: Inputs) -> ms.Stream:
    """Every auction with each bid while it was open, in the columns of both."""
    return (
        inputs["auction"]
        .key_by("id")
        .join(
            inputs["bid"].key_by("auction"),
            within=ms.interval("0s", ms.col("expires")),
            suffix="_of_bid",
            uid="bids-of-auctions",
        )
    )


def ended(bids: ms.Stream, *key: str) -> ms.WindowedStream:
    """The bids of an auction in one window: that of the second in which it expires."""
    return bids.key_by(*key).window(ms.tumbling("1s"))


class LastTen(ms.KeyedProcess):
    """Auctions of one second come in any order. When all are there, they are taken by expiry."""

    ended = ms.ListState("struct<window_end:timestamp,expires:timestamp,id:long,price:long>")
    prices = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> None:
        self.ended.add((row.window_end, row.expires, row.id, row.price))
        ctx.timers.event_time(row.window_end)

    def on_timer(self, at: datetime, ctx: Any) -> Iterator[tuple[int, int, int]]:
        ended, prices = list(self.ended.get()), list(self.prices.get())
        for _, _, auction, price in sorted(each for each in ended if each.window_end <= at):
            prices = [*prices, price][-LAST:]
            yield ctx.key, auction, sum(prices) // len(prices)
        self.prices.update(prices)
        self.ended.update([each for each in ended if each.window_end > at])

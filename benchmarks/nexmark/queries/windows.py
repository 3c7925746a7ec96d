"""Queries of windows of event time: what is most, highest, or together in each."""

from __future__ import annotations

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs

SAME_TIME = ms.interval("0s", "0s")


def q5(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    by_auction = inputs["bid"].key_by("auction").window(ms.sliding("10s", every="2s"))
    counts = by_auction.aggregate(bids=ms.count(), uid="counts")
    # One window of ten seconds ends in each two.
    most = counts.window(ms.tumbling("2s")).aggregate(bids=ms.max("bids"), uid="most")
    return counts.key_by("bids").join(
        most.key_by("bids"), within=SAME_TIME, how="semi", uid="with-most"
    )


def q7(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    bids = inputs["bid"]
    highest = bids.window(ms.tumbling("10s")).aggregate(price=ms.max("price"), uid="highest")
    found = bids.key_by("price").join(
        highest.key_by("price"), window=ms.tumbling("10s"), how="semi", uid="of-highest"
    )
    return found.select("auction", "price", "bidder", "at", "extra")


def q8(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    persons, auctions = inputs["person"].key_by("id"), inputs["auction"].key_by("seller")
    found = persons.join(auctions, window=ms.tumbling("10s"), how="semi", uid="new-sellers")
    return found.select("id", "name", "window_start", "window_end")


def q12(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    by_bidder = inputs["bid"].key_by("bidder").window(ms.tumbling("10s", time="processing"))
    counts = by_bidder.aggregate(bids=ms.count(), uid="counts")
    return counts.select("bidder", "bids")

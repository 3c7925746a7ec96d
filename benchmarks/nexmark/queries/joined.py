"""Queries that join rows of a key, whenever they come: nothing is ever forgotten."""

from __future__ import annotations

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs


def q3(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    auctions = inputs["auction"].filter(ms.col("category") == 10)
    persons = inputs["person"].filter(ms.col("state").isin("OR", "ID", "CA"))
    sold = auctions.key_by("seller").join(persons.key_by("id"), keep="forever", uid="sellers")
    return sold.select("name", "city", "state", "id")


def q20(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    auctions = inputs["auction"].filter(ms.col("category") == 10)
    joined = (
        inputs["bid"]
        .key_by("auction")
        .join(auctions.key_by("id"), keep="forever", suffix="_of_auction", uid="bids-of-auctions")
    )
    return joined.rename(at_of_auction="auction_at", extra_of_auction="auction_extra")


def q23(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    bids, auctions = inputs["bid"].key_by("bidder"), inputs["auction"].key_by("seller")
    known = bids.join(inputs["person"].key_by("id"), keep="forever", uid="bidders")
    joined = known.key_by("bidder").join(auctions, keep="forever", uid="own-auctions")
    columns = ("auction", "bidder", "price", "at", "name", "city", "state")
    return joined.rename(id="own_auction").select(*columns, "own_auction", "item_name", "category")

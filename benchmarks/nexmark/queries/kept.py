"""Queries of the rows of a key that are kept: the last one, or the best."""

from __future__ import annotations

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs


def q18(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    # A number that is higher has a time that is not earlier.
    by_both = inputs["bid"].key_by("bidder", "auction")
    return by_both.deduplicate(keep="last", by="seq", uid="last").drop("seq")


def q19(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    by_price = ["price", ms.col("seq").asc()]
    highest = inputs["bid"].key_by("auction").top(10, by=by_price, uid="highest")
    return highest.with_columns(place=ms.col("rank").cast("long")).drop("seq", "rank")

"""Queries of sessions: bids of a bidder with no long pause between them."""

from __future__ import annotations

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs


def q11(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    by_bidder = inputs["bid"].key_by("bidder").window(ms.session("10s"))
    return by_bidder.aggregate(bids=ms.count(), uid="sessions")

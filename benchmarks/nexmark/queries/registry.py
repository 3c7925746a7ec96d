"""Which queries there are, and how a job of one is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mainstay as ms
from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.queries import (
    addresses,
    bids,
    joined,
    kept,
    sessions,
    side_input,
    totals,
    windows,
    winners,
)
from benchmarks.nexmark.queries.inputs import Inputs

Builder = Callable[[ms.Environment, Inputs], ms.Stream]

OUTPUT = "out"
"""The uid of the sink."""

BUILDERS: dict[str, Builder] = {
    "q0": bids.q0,
    "q1": bids.q1,
    "q2": bids.q2,
    "q3": joined.q3,
    "q4": winners.q4,
    "q5": windows.q5,
    "q6": winners.q6,
    "q7": windows.q7,
    "q8": windows.q8,
    "q9": winners.q9,
    "q10": totals.q10,
    "q11": sessions.q11,
    "q12": windows.q12,
    "q13": side_input.q13,
    "q14": bids.q14,
    "q15": totals.q15,
    "q16": totals.q16,
    "q17": totals.q17,
    "q18": kept.q18,
    "q19": kept.q19,
    "q20": joined.q20,
    "q21": addresses.q21,
    "q22": addresses.q22,
    "q23": joined.q23,
}
"""Queries that have a program; what they read and give is in ``contract.QUERIES``."""


def build(
    env: ms.Environment,
    query: str,
    sources: Mapping[str, ms.connectors.Source],
    sink: ms.connectors.Sink,
    *,
    delay: str = "0s",
) -> None:
    """Write the job of a query into an environment. Its results must be as its contract says."""
    found = BUILDERS[query](env, Inputs(env, sources, delay))
    wanted = QUERIES[query].schema
    if [(f.name, f.type) for f in found.schema] != [(f.name, f.type) for f in wanted]:
        raise ValueError(f"{query} gives {found.schema}; its contract has {wanted}")
    found.sink(sink, uid=OUTPUT)

"""Runs a query of Nexmark as a job, with whatever befalls it, and gives its result."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.queries.registry import OUTPUT, build
from benchmarks.nexmark.results import last_per_key
from benchmarks.nexmark.sources import generated, side
from mainstay.connectors import Memory, Source
from mainstay.testing import Result, run

RUNS = 25
"""So many runs of each kind are divided among the splits."""


def sources_of(query: str, generator: Generator, events: int, splits: int) -> dict[str, Source]:
    """The inputs of a query, with the columns that it reads."""
    return {
        name: side() if name == "side" else some(generator, name, events, columns, splits)
        for name, columns in QUERIES[query].reads.items()
    }


def some(
    generator: Generator, kind: str, events: int, columns: tuple[str, ...], splits: int
) -> Source:
    rows = len(generator.timeline.rows(kind, events))
    return generated(generator, kind, events, columns, splits=splits, run_rows=rows // RUNS + 1)


def finished(
    query: str, generator: Generator, events: int, *, splits: int = 2, **settings: Any
) -> Result:
    """The query, run to its end. Events may be as far out of order as the generator's are."""
    timeline = generator.timeline
    sources = sources_of(query, generator, events, splits)
    delay = f"{1000 * timeline.group // timeline.rate}ms"
    return run(lambda env: build(env, query, sources, Memory(), delay=delay), **settings)


def table_of(query: str, result: Result) -> pa.Table:
    """What the query gave in the end: of one that updates, the last row of each key."""
    rows, contract = result.output(OUTPUT), QUERIES[query]
    columns = list(zip(*rows, strict=True)) or [()] * len(contract.schema)
    found = pa.table([list(column) for column in columns], schema=contract.schema)
    return last_per_key(found, contract.key) if contract.key else found

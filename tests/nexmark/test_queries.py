"""Every query of Nexmark that has a program gives exactly what DuckDB gives, crashes or not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.queries.registry import BUILDERS
from benchmarks.nexmark.reference import expected, tables_of
from benchmarks.nexmark.results import compare
from benchmarks.nexmark.timeline import Timeline
from tests.nexmark.running import finished, table_of

SECONDS = 40
# Over midnight, and slow enough for several windows.
FIRST_AT = datetime(2026, 3, 2, tzinfo=timezone.utc) - timedelta(seconds=30)
EVENTS, FEWER, MANY = 4_000, 2_000, 20_000
COSTLY = {"q4", "q6", "q9", "q16", "q19", "q20", "q23"}
"""Queries that are run with fewer events, but in the soak."""

BY_THE_CLOCK = {"q12"}
"""Queries whose rows depend on when they run."""

CHECKED = [query for query in BUILDERS if query not in BY_THE_CLOCK]


def events_of(query: str) -> int:
    return FEWER if query in COSTLY else EVENTS


def generator(events: int, group: int) -> Generator:
    return Generator(11, Timeline(rate=events // SECONDS, first_at=FIRST_AT, group=group))


@cache
def reference(query: str, events: int, group: int) -> pa.Table:
    return expected(query, tables_of(query, generator(events, group), events))


def _once_in_the_suite() -> Iterator[Any]:
    """Every query at every parallelism: one of them in the suite, in turn, the rest in the soak."""
    for number, query in enumerate(CHECKED):
        for parallelism in (1, 2, 3):
            is_chosen = parallelism == 1 + number % 3
            yield pytest.param(query, parallelism, marks=() if is_chosen else pytest.mark.soak)


@pytest.mark.parametrize(("query", "parallelism"), list(_once_in_the_suite()))
def test_a_query_gives_what_the_reference_gives_after_a_crash(query: str, parallelism: int) -> None:
    events = events_of(query)
    result = finished(
        query, generator(events, 1), events, parallelism=parallelism, seed=parallelism, crashes=1
    )
    compare(table_of(query, result), reference(query, events, 1))


@pytest.mark.parametrize(
    "query",
    [
        # The soak has the others: what is the same for all of them is seen by every second one.
        pytest.param(query, marks=pytest.mark.soak if number % 2 else ())
        for number, query in enumerate(CHECKED)
    ],
)
def test_neither_the_order_of_events_nor_a_rescale_matters(query: str) -> None:
    events = events_of(query)
    result = finished(
        query, generator(events, 100), events, seed=5, crashes=1, rescales=[3], mode="unaligned"
    )
    compare(table_of(query, result), reference(query, events, 100))


def test_windows_by_the_clock_have_every_bid_once() -> None:
    result = finished("q12", generator(EVENTS, 1), EVENTS, seed=7, crashes=1, rescales=[3])
    counts = table_of("q12", result).group_by("bidder").aggregate([("bids", "sum")])
    compare(counts.rename_columns(["bidder", "bids"]), reference("q12", EVENTS, 1))


@pytest.mark.soak
@pytest.mark.parametrize("query", CHECKED)
@pytest.mark.parametrize("seed", range(20))
def test_whatever_befalls_a_query_it_gives_what_the_reference_gives(query: str, seed: int) -> None:
    case = Random(seed)
    group, splits = case.choice([1, 10, 100]), case.choice([1, 2, 4])
    result = finished(
        query,
        generator(MANY, group),
        MANY,
        splits=splits,
        seed=seed,
        parallelism=case.choice([1, 2, 3]),
        crashes=case.choice([0, 1, 3]),
        rescales=case.choice([[], [3], [2, 4], [4, 1]]),
        mode=case.choice(["exactly_once", "unaligned"]),
    )
    compare(table_of(query, result), reference(query, MANY, group))


def test_a_crash_goes_back_to_an_epoch_and_the_result_is_that_of_the_reference() -> None:
    result = finished("q2", generator(EVENTS, 1), EVENTS, parallelism=3, seed=3, crashes=1)
    assert result.attempts[-1].restored_from is not None
    compare(table_of("q2", result), reference("q2", EVENTS, 1))


def test_a_program_belongs_to_a_contract() -> None:
    assert BUILDERS.keys() <= QUERIES.keys()

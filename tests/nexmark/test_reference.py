"""The reference of Nexmark: DuckDB's answers, those of plain loops, and a few by hand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.nexmark import contract
from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.parquet_input import write_parquet
from benchmarks.nexmark.reference import expected, statement, stored_tables, tables_of
from benchmarks.nexmark.results import compare
from benchmarks.nexmark.schemas import INPUTS
from benchmarks.nexmark.timeline import Timeline
from tests.nexmark.plain import LOOPS

MIDNIGHT = datetime(2026, 3, 2, tzinfo=timezone.utc)
EVENTS = 6_000
# Over midnight, and slow enough for several windows and for sessions to end.
GENERATOR = Generator(3, Timeline(rate=100, first_at=MIDNIGHT - timedelta(seconds=30)))


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_has_an_answer_of_its_contracts_columns(query: str) -> None:
    found = expected(query, tables_of(query, GENERATOR, EVENTS))
    assert found.schema.types == QUERIES[query].schema.types
    assert found.num_rows > 0


@pytest.mark.parametrize("query", QUERIES)
def test_a_contract_names_all_columns_that_the_statement_needs(query: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "events", 2_000, GENERATOR)
    tables = stored_tables(query, tmp_path / "events")
    compare(expected(query, tables), expected(query, tables_of(query, GENERATOR, 2_000)))


@pytest.mark.parametrize("query", LOOPS)
@pytest.mark.parametrize("group", [1, 100])
def test_a_statement_gives_what_a_loop_gives(query: str, group: int) -> None:
    timeline = Timeline(rate=100, first_at=MIDNIGHT - timedelta(seconds=30), group=group)
    tables = tables_of(query, Generator(4, timeline), EVENTS)
    rows = LOOPS[query]({name: table.to_pylist() for name, table in tables.items()})
    compare(table_of(rows, QUERIES[query].schema), expected(query, tables))


def table_of(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)


def given(kind: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of a kind; a column that is not given is null, and ``seq`` counts them."""
    numbered = [{"seq": number, **row} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, schema=INPUTS[kind])


def second(number: float) -> datetime:
    return MIDNIGHT + timedelta(seconds=number)


def test_a_bid_at_the_end_of_a_window_is_in_the_next_one() -> None:
    bids = [{"price": 5, "at": second(0)}, {"price": 9, "at": second(10)}]
    found = expected("q7", {"bid": given("bid", bids)})
    assert found["price"].to_pylist() == [5, 9]


def test_a_bid_is_in_the_five_windows_that_end_after_it() -> None:
    found = expected("q5", {"bid": given("bid", [{"auction": 1, "at": second(4)}])})
    ends = sorted(end for end in found["window_end"].to_pylist())
    assert ends == [second(number) for number in (6, 8, 10, 12, 14)]


def test_a_session_goes_on_after_exactly_its_gap() -> None:
    times = [second(0), second(10), second(20.001)]
    found = expected("q11", {"bid": given("bid", [{"bidder": 1, "at": at} for at in times])})
    assert sorted(found["bids"].to_pylist()) == [1, 2]


def test_the_first_and_the_last_moment_of_an_auction_count() -> None:
    auction = {"id": 1, "category": 10, "seller": 7, "at": second(1), "expires": second(2)}
    moments = [(0.999, 90), (1, 10), (2, 20), (2.001, 80)]
    bids = [{"auction": 1, "price": price, "at": second(at)} for at, price in moments]
    tables = {"auction": given("auction", [auction]), "bid": given("bid", bids)}
    assert expected("q4", tables)["mean_price"].to_pylist() == [20]
    assert expected("q9", tables)["bid_at"].to_pylist() == [second(2)]


def test_a_mean_price_is_rounded_down_and_of_ten_auctions() -> None:
    auctions = [
        {"id": number, "category": 10, "seller": 7, "at": second(0), "expires": second(number)}
        for number in range(1, 13)
    ]
    bids = [{"auction": number, "price": number * 3, "at": second(0)} for number in range(1, 13)]
    tables = {"auction": given("auction", auctions), "bid": given("bid", bids)}
    found = expected("q6", tables).sort_by("auction")["mean_price"].to_pylist()
    assert found[:3] == [3, 4, 6]
    assert found[-1] == sum(number * 3 for number in range(3, 13)) // 10


def test_a_channel_without_a_number_is_left_out() -> None:
    urls = ["https://x/a/b/c/item?query=1&channel_id=5", "https://x/a/b/c/item?query=1"]
    rows = [{"channel": "channel-1", "url": url} for url in urls] + [
        {"channel": "Baidu", "url": urls[1]}
    ]
    found = expected("q21", {"bid": given("bid", rows)})
    assert found["channel_id"].to_pylist() == ["5", "3"]


def test_the_contract_is_on_the_page() -> None:
    page = (Path(contract.__file__).parent / "README.md").read_text(encoding="utf-8")
    for name, query in QUERIES.items():
        key = f"last of {', '.join(query.key)}" if query.key else "append"
        told = (name, query.question, ", ".join(query.reads), f"`{query.columns}`", key)
        assert f"| {' | '.join(told)} |" in page
        assert statement(name)

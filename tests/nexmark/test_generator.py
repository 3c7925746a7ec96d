"""The events of Nexmark: the same wherever they are made, distributed as in the original."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.parquet_input import write_parquet
from benchmarks.nexmark.schemas import EVENTS
from benchmarks.nexmark.sources import Rows, generated
from benchmarks.nexmark.timeline import Timeline, rows_per_chunk
from mainstay.schema import to_schema

SHARES = {"person": 1 / 50, "auction": 3 / 50, "bid": 46 / 50}


def share(table: pa.Table, condition: pc.Expression) -> float:
    return table.filter(condition).num_rows / table.num_rows


def test_the_first_event_is_number_two_and_every_number_comes_once() -> None:
    generator = Generator()
    tables = [generator.table(kind, 120_000, ("seq",)) for kind in EVENTS]
    numbers = sorted(pa.concat_tables(tables)["seq"].to_pylist())
    assert numbers == list(range(2, 120_002))


@pytest.mark.parametrize("kind", EVENTS)
def test_a_kind_has_its_share(kind: str) -> None:
    found = Generator().table(kind, 100_000)
    assert found.num_rows == pytest.approx(100_000 * SHARES[kind], abs=2)
    assert found.schema == EVENTS[kind]
    assert not any(column.null_count for column in found.columns)


@pytest.mark.parametrize("kind", EVENTS)
def test_rows_are_the_same_alone_and_in_any_order(kind: str) -> None:
    step = rows_per_chunk(kind)
    whole = Generator(5).table(kind, 160_000).combine_chunks()
    alone = Generator(5)
    for first in (2 * step + 7, step - 20, 5):
        start = first - int(kind == "auction")
        assert pa.table(alone.rows(kind, first, 50)) == whole.slice(start, 50)


def test_a_column_is_the_same_whether_others_are_made_or_not() -> None:
    for kind, schema in EVENTS.items():
        whole = Generator(5).table(kind, 5_000)
        for name in schema.names:
            assert Generator(5).table(kind, 5_000, (name,))[name] == whole[name]


@pytest.mark.parametrize("kind", EVENTS)
def test_out_of_order_the_same_events_come_within_their_group(kind: str) -> None:
    in_order = Generator(5).table(kind, 59_999)
    mixed = Generator(5, Timeline(group=1000)).table(kind, 59_999)
    assert mixed != in_order
    assert mixed.sort_by("seq") == in_order
    groups = [(seq - 1) // 1000 for seq in mixed["seq"].to_pylist()]
    assert groups == sorted(groups)


def test_another_seed_gives_other_events() -> None:
    assert Generator(1).table("bid", 1_000) != Generator(2).table("bid", 1_000)


def test_time_goes_on_by_the_rate_from_where_it_is_told_to() -> None:
    first = datetime(2025, 6, 1, 12, tzinfo=timezone.utc)
    times = Generator(1, Timeline(rate=100, first_at=first)).table("bid", 1_000, ("at", "seq"))
    for row in times.to_pylist():
        assert (row["at"] - first).total_seconds() == pytest.approx((row["seq"] - 1) / 100)


def test_values_are_distributed_as_in_the_original() -> None:
    bids = Generator(9).table("bid", 200_000)
    price = pc.field("price")
    assert share(bids, price < 10_000) == pytest.approx(1 / 3, abs=0.01)
    assert share(bids, price >= 1_000_000) == pytest.approx(1 / 3, abs=0.01)
    is_hot = ~pc.starts_with(pc.field("channel"), "channel")
    assert share(bids, is_hot) == pytest.approx(1 / 2, abs=0.01)
    lengths = pc.binary_length(bids["extra"])
    assert (pc.min(lengths).as_py(), pc.max(lengths).as_py()) == (54, 81)


def test_rows_are_brought_to_their_average_size() -> None:
    for kind, numbers, average in (("person", 1, 200), ("auction", 6, 500), ("bid", 4, 100)):
        rows = Generator(9).table(kind, 200_000)
        texts = [name for name in rows.column_names if rows.schema.field(name).type == pa.string()]
        # The channel and the address of a bid do not count.
        counted = [name for name in texts if name not in ("channel", "url")]
        sizes = [pc.mean(pc.binary_length(rows[name])).as_py() for name in counted]
        assert 8 * numbers + sum(sizes) == pytest.approx(average, abs=2)


def test_ids_begin_after_a_thousand() -> None:
    for kind in ("person", "auction"):
        ids = Generator(9).table(kind, 10_000, ("id",))["id"].to_pylist()
        assert ids == list(range(1001, 1001 + len(ids)))


def test_an_auction_lives_for_a_third_of_a_second_at_most() -> None:
    auctions = Generator(9).table("auction", 100_000)
    lives = pc.milliseconds_between(auctions["at"], auctions["expires"])
    assert pc.min(lives).as_py() >= 1
    assert 320 <= pc.max(lives).as_py() <= 334


def test_half_of_the_bids_are_for_hot_auctions_and_three_quarters_by_hot_bidders() -> None:
    bids = Generator(9).table("bid", 500_000, ("auction", "bidder")).to_pydict()
    hot_auctions = sum(auction % 100 == 0 for auction in bids["auction"]) / len(bids["auction"])
    hot_bidders = sum(bidder % 100 == 1 for bidder in bids["bidder"]) / len(bids["bidder"])
    assert hot_auctions == pytest.approx(0.505, abs=0.01)
    assert hot_bidders == pytest.approx(0.7525, abs=0.01)


def test_a_generator_that_was_pickled_makes_the_same() -> None:
    made = Generator(5, Timeline(group=10))
    rows = Rows(made, "bid", ("auction", "price"))
    assert pickle.loads(pickle.dumps(rows))(100, 5) == rows(100, 5)


def test_the_source_has_the_types_that_ddl_gives() -> None:
    source = generated(Generator(), "bid", 1_000, ("auction", "at", "extra"))
    assert source.schema == to_schema("auction long, at timestamp, extra string")


def test_a_group_that_does_not_divide_a_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match="must divide"):
        Timeline(group=7)


def test_files_hold_every_row_once(tmp_path: Path) -> None:
    generator = Generator(5)
    write_parquet(tmp_path, 120_000, generator, files=2)
    for kind, schema in EVENTS.items():
        found = pq.read_table(tmp_path / kind).sort_by("seq")
        assert found.schema.equals(schema)
        assert found == generator.table(kind, 120_000)
        assert len(list((tmp_path / kind).iterdir())) == 2

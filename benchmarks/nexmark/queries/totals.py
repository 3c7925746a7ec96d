"""Queries of running totals: bids by day, channel and auction, in three ranks of prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs

PRICE = ms.col("price")
RANKS: Mapping[str, ms.Column | None] = {
    "total": None,
    "rank1": PRICE < 10_000,
    "rank2": (PRICE >= 10_000) & (PRICE < 1_000_000),
    "rank3": PRICE >= 1_000_000,
}
BIDS = {f"{rank}_bids": ms.count(where=where) for rank, where in RANKS.items()}
COUNTS = {
    **BIDS,
    **{
        f"{rank}_bidders": ms.count_distinct("bidder", where=is_in) for rank, is_in in RANKS.items()
    },
    **{
        f"{rank}_auctions": ms.count_distinct("auction", where=is_in)
        for rank, is_in in RANKS.items()
    },
}


def q10(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    return with_texts(inputs["bid"], day="%Y-%m-%d", minute="%H:%M")


def q15(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    bids = with_texts(inputs["bid"], day="%Y-%m-%d")
    return bids.key_by("day").aggregate(**COUNTS, uid="days")


def q16(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    bids = with_texts(inputs["bid"], day="%Y-%m-%d", minute="%H:%M")
    by_channel = bids.key_by("channel", "day")
    return by_channel.aggregate(minute=ms.max("minute"), **COUNTS, uid="channels")


def q17(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    bids = with_texts(inputs["bid"], day="%Y-%m-%d")
    totals = bids.key_by("auction", "day").aggregate(
        **BIDS,
        min_price=ms.min("price"),
        max_price=ms.max("price"),
        sum_price=ms.sum("price"),
        uid="auctions",
    )
    # Whole numbers that are not negative: the quotient is rounded down.
    mean = pc.divide(pc.field("sum_price"), pc.field("total_bids"))
    keys, prices = ("auction", "day"), ("min_price", "max_price", "mean_price", "sum_price")
    return totals.with_columns(mean_price=mean).select(*keys, *BIDS, *prices)


@dataclass(frozen=True)
class WithTexts:
    """Adds the time of an event as texts, by the name of the column and the format."""

    formats: Mapping[str, str]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, form in self.formats.items():
            batch = batch.append_column(name, texts(batch["at"], form))
        return batch


def with_texts(bids: ms.Stream, **formats: str) -> ms.Stream:
    fields = [pa.field(name, pa.string()) for name in formats]
    schema = pa.schema([*bids.schema, *fields])
    return bids.map_batches(WithTexts(formats), schema, uid="with-texts")


def texts(times: pa.Array, form: str) -> pa.Array:
    # A batch has few minutes: each is written once.
    minutes = pc.floor_temporal(times, unit="minute").dictionary_encode()
    written = pc.strftime(minutes.dictionary, form)
    return pc.take(written, minutes.indices)

"""What each query reads and gives: the contract of its SQL, its Mainstay program and its checks.

A query that *appends* gives each row once. One that *updates* gives a row whenever what it says of
a key has changed, and its result is the last row of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from mainstay.schema import to_schema

_RANKS = ["total", "rank1", "rank2", "rank3"]
_COUNTS = ", ".join(
    f"{rank}_{of} long" for of in ("bids", "bidders", "auctions") for rank in _RANKS
)
_BID = (
    "auction long, bidder long, price long, channel string, url string, at timestamp, extra string"
)
_WINDOW = "window_start timestamp, window_end timestamp"


@dataclass(frozen=True)
class Query:
    """``key`` is empty where rows are appended."""

    question: str
    reads: Mapping[str, tuple[str, ...]]
    columns: str
    key: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return to_schema(self.columns)

    @property
    def form(self) -> str:
        return "last per key" if self.key else "append"


def _reads(**columns: str) -> dict[str, tuple[str, ...]]:
    return {kind: tuple(names.split()) for kind, names in columns.items()}


_BIDS_OF_AUCTIONS = _reads(auction="id at expires seller category", bid="auction price at seq")

QUERIES: dict[str, Query] = {
    "q0": Query(
        "all bids",
        _reads(bid="auction bidder price at extra"),
        "auction long, bidder long, price long, at timestamp, extra string",
    ),
    "q1": Query(
        "all bids in another currency: 0.908 of the price",
        _reads(bid="auction bidder price at extra"),
        "auction long, bidder long, price decimal(23,3), at timestamp, extra string",
    ),
    "q2": Query(
        "bids for auctions whose id is a multiple of 123",
        _reads(bid="auction price"),
        "auction long, price long",
    ),
    "q3": Query(
        "sellers of auctions of category 10 who live in Oregon, Idaho or California",
        _reads(auction="id seller category", person="id name city state"),
        "name string, city string, state string, id long",
    ),
    "q4": Query(
        "mean of the winning prices of a category, rounded down",
        _BIDS_OF_AUCTIONS,
        "category long, mean_price long",
        ("category",),
    ),
    "q5": Query(
        "auctions with the most bids of a sliding window: 10 s, every 2 s; all of them in a tie",
        _reads(bid="auction at"),
        f"auction long, {_WINDOW}, bids long",
    ),
    "q6": Query(
        "mean winning price of a seller's last ten auctions with a bid, as each of them ends",
        _BIDS_OF_AUCTIONS,
        "seller long, auction long, mean_price long",
    ),
    "q7": Query(
        "bids of the highest price of their window of 10 s",
        _reads(bid="auction bidder price at extra"),
        "auction long, price long, bidder long, at timestamp, extra string",
    ),
    "q8": Query(
        "persons who opened an auction in the window of 10 s in which they registered",
        _reads(person="id name at", auction="seller at"),
        f"id long, name string, {_WINDOW}",
    ),
    "q9": Query(
        "every auction with its winning bid",
        _reads(
            auction="id item_name description initial_bid reserve at expires seller category extra",
            bid="auction bidder price at extra seq",
        ),
        "id long, item_name string, description string, initial_bid long, reserve long, "
        "at timestamp, expires timestamp, seller long, category long, extra string, "
        "bidder long, price long, bid_at timestamp, bid_extra string",
    ),
    "q10": Query(
        "all bids, for files by day and minute",
        _reads(bid="auction bidder price at extra"),
        "auction long, bidder long, price long, at timestamp, extra string, "
        "day string, minute string",
    ),
    "q11": Query(
        "bids of a bidder in a session, which ends after 10 s without a bid",
        _reads(bid="bidder at"),
        f"bidder long, {_WINDOW}, bids long",
    ),
    "q12": Query(
        "bids of a bidder in windows of 10 s by the clock: compare their sum by bidder",
        _reads(bid="bidder at"),
        "bidder long, bids long",
    ),
    "q13": Query(
        "bids with the value that the side input has for auction % 10,000",
        _reads(bid="auction bidder price at", side="key value"),
        "auction long, bidder long, price long, at timestamp, value string",
    ),
    "q14": Query(
        "bids of 1 to 50 million in another currency, with the time of day and a count of letters",
        _reads(bid="auction bidder price at extra"),
        "auction long, bidder long, price decimal(23,3), time_of_day string, at timestamp, "
        "extra string, c_count long",
    ),
    "q15": Query(
        "bids, bidders and auctions of a day, in three ranks of prices",
        _reads(bid="auction bidder price at"),
        f"day string, {_COUNTS}",
        ("day",),
    ),
    "q16": Query(
        "the same for each channel, with the minute of its last bid",
        _reads(bid="auction bidder price channel at"),
        f"channel string, day string, minute string, {_COUNTS}",
        ("channel", "day"),
    ),
    "q17": Query(
        "bids and prices of an auction on a day",
        _reads(bid="auction price at"),
        "auction long, day string, total_bids long, rank1_bids long, rank2_bids long, "
        "rank3_bids long, min_price long, max_price long, mean_price long, sum_price long",
        ("auction", "day"),
    ),
    "q18": Query(
        "the last bid of each bidder for each auction",
        _reads(bid="auction bidder price channel url at extra seq"),
        _BID,
        ("bidder", "auction"),
    ),
    "q19": Query(
        "the ten highest bids of each auction",
        _reads(bid="auction bidder price channel url at extra seq"),
        f"{_BID}, place long",
        ("auction", "place"),
    ),
    "q20": Query(
        "bids with their auctions, of category 10",
        _reads(
            auction="id item_name description initial_bid reserve at expires seller category extra",
            bid="auction bidder price channel url at extra",
        ),
        f"{_BID}, item_name string, description string, initial_bid long, reserve long, "
        "auction_at timestamp, expires timestamp, seller long, category long, auction_extra string",
    ),
    "q21": Query(
        "the number of a bid's channel, of those that have one",
        _reads(bid="auction bidder price channel url"),
        "auction long, bidder long, price long, channel string, channel_id string",
    ),
    "q22": Query(
        "the three folders of a bid's address",
        _reads(bid="auction bidder price channel url"),
        "auction long, bidder long, price long, channel string, "
        "dir1 string, dir2 string, dir3 string",
    ),
    "q23": Query(
        "bids with their bidder and each auction that the bidder sells",
        _reads(
            bid="auction bidder price at",
            person="id name city state",
            auction="id item_name seller category",
        ),
        "auction long, bidder long, price long, at timestamp, name string, city string, "
        "state string, own_auction long, item_name string, category long",
    ),
}

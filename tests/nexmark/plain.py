"""Queries of Nexmark as plain loops over lists of dicts: what the reference itself is checked by.

Each is written from what the query asks, not from its SQL, and gives tuples in the order of the
contract's columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

Rows = list[dict[str, Any]]
Inputs = Mapping[str, Rows]
Answer = list[tuple[Any, ...]]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
WINDOW = timedelta(seconds=10)
SLIDE = timedelta(seconds=2)


def start_of(at: datetime, size: timedelta) -> datetime:
    return at - (at - EPOCH) % size


def grouped(rows: Rows, *columns: str) -> dict[Any, Rows]:
    groups: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        groups[tuple(row[column] for column in columns)].append(row)
    return groups


def winners(inputs: Inputs) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each auction that has a bid while it is open, with the best of them."""
    bids = grouped(inputs["bid"], "auction")
    for auction in inputs["auction"]:
        best = None
        for bid in bids.get((auction["id"],), []):
            if auction["at"] <= bid["at"] <= auction["expires"]:
                rank = (-bid["price"], bid["at"], bid["seq"])
                if best is None or rank < best[0]:
                    best = rank, bid
        if best is not None:
            yield auction, best[1]


def q4(inputs: Inputs) -> Answer:
    prices: dict[int, list[int]] = defaultdict(list)
    for auction, bid in winners(inputs):
        prices[auction["category"]].append(bid["price"])
    return [(category, sum(won) // len(won)) for category, won in prices.items()]


def q5(inputs: Inputs) -> Answer:
    windows: dict[datetime, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for bid in inputs["bid"]:
        start = start_of(bid["at"], SLIDE)
        while start > bid["at"] - WINDOW:
            windows[start][bid["auction"]] += 1
            start -= SLIDE
    return [
        (auction, start, start + WINDOW, count)
        for start, counts in windows.items()
        for auction, count in counts.items()
        if count == max(counts.values())
    ]


def q6(inputs: Inputs) -> Answer:
    answer, ended = [], sorted(winners(inputs), key=lambda won: (won[0]["expires"], won[0]["id"]))
    prices: dict[int, list[int]] = defaultdict(list)
    for auction, bid in ended:
        last = prices[auction["seller"]]
        last.append(bid["price"])
        del last[:-10]
        answer.append((auction["seller"], auction["id"], sum(last) // len(last)))
    return answer


def q7(inputs: Inputs) -> Answer:
    highest: dict[datetime, int] = defaultdict(int)
    for bid in inputs["bid"]:
        start = start_of(bid["at"], WINDOW)
        highest[start] = max(highest[start], bid["price"])
    return [
        (bid["auction"], bid["price"], bid["bidder"], bid["at"], bid["extra"])
        for bid in inputs["bid"]
        if bid["price"] == highest[start_of(bid["at"], WINDOW)]
    ]


def q8(inputs: Inputs) -> Answer:
    sold = {(auction["seller"], start_of(auction["at"], WINDOW)) for auction in inputs["auction"]}
    found = []
    for person in inputs["person"]:
        start = start_of(person["at"], WINDOW)
        if (person["id"], start) in sold:
            found.append((person["id"], person["name"], start, start + WINDOW))
    return found


def q9(inputs: Inputs) -> Answer:
    columns = "id item_name description initial_bid reserve at expires seller category extra"
    return [
        (
            *(auction[column] for column in columns.split()),
            *(bid[column] for column in ("bidder", "price", "at", "extra")),
        )
        for auction, bid in winners(inputs)
    ]


def q11(inputs: Inputs) -> Answer:
    sessions = []
    for (bidder,), bids in grouped(inputs["bid"], "bidder").items():
        times = sorted(bid["at"] for bid in bids)
        first, last, count = times[0], times[0], 0
        for at in times:
            if at - last > WINDOW:
                sessions.append((bidder, first, last + WINDOW, count))
                first, count = at, 0
            last, count = at, count + 1
        sessions.append((bidder, first, last + WINDOW, count))
    return sessions


def q15(inputs: Inputs) -> Answer:
    days: dict[str, Rows] = defaultdict(list)
    for bid in inputs["bid"]:
        days[bid["at"].strftime("%Y-%m-%d")].append(bid)
    return [(day, *counts_by_rank(bids)) for day, bids in days.items()]


def counts_by_rank(bids: Rows) -> list[int]:
    low = [bid for bid in bids if bid["price"] < 10_000]
    high = [bid for bid in bids if bid["price"] >= 1_000_000]
    middle = [bid for bid in bids if 10_000 <= bid["price"] < 1_000_000]
    ranks = [bids, low, middle, high]
    counts = [len(each) for each in ranks]
    for column in ("bidder", "auction"):
        counts += [len({bid[column] for bid in each}) for each in ranks]
    return counts


BID = ("auction", "bidder", "price", "channel", "url", "at", "extra")


def q18(inputs: Inputs) -> Answer:
    last = {}
    for bid in sorted(inputs["bid"], key=lambda bid: (bid["at"], bid["seq"])):
        last[bid["bidder"], bid["auction"]] = bid
    return [tuple(bid[column] for column in BID) for bid in last.values()]


def q19(inputs: Inputs) -> Answer:
    answer = []
    for bids in grouped(inputs["bid"], "auction").values():
        best = sorted(bids, key=lambda bid: (-bid["price"], bid["seq"]))[:10]
        for place, bid in enumerate(best, 1):
            answer.append((*(bid[column] for column in BID), place))
    return answer


def q23(inputs: Inputs) -> Answer:
    persons = {person["id"]: person for person in inputs["person"]}
    sold = grouped(inputs["auction"], "seller")
    return [
        (
            *(bid[column] for column in ("auction", "bidder", "price", "at")),
            *(persons[bid["bidder"]][column] for column in ("name", "city", "state")),
            *(auction[column] for column in ("id", "item_name", "category")),
        )
        for bid in inputs["bid"]
        if bid["bidder"] in persons
        for auction in sold.get((bid["bidder"],), [])
    ]


LOOPS: dict[str, Callable[[Inputs], Answer]] = {
    "q4": q4,
    "q5": q5,
    "q6": q6,
    "q7": q7,
    "q8": q8,
    "q9": q9,
    "q11": q11,
    "q15": q15,
    "q18": q18,
    "q19": q19,
    "q23": q23,
}

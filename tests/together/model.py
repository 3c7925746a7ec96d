"""What the jobs must come to: plain loops over the input, one row after the other.

Nothing here knows of the product. Outputs are multisets of rows, states are dictionaries by key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.together.generator import Event, Move

WINDOW_US = 10_000_000
WITHIN_US = 500_000
"""How much later than its order a payment may be to belong to it."""
LOOP_EVERY = 5

Rows = Counter[tuple[Any, ...]]


def bounds_of(at_us: int) -> tuple[int, int]:
    """The window that a time is in."""
    first = at_us // WINDOW_US * WINDOW_US
    return first, first + WINDOW_US


def turns_of(n: int) -> int:
    """How often a row goes round the loop."""
    return n % 4 + 1


def turned(value: int) -> int:
    return (value * 3 + 1) % 1_000_003


def final_value(event: Event) -> int:
    value = event.amount
    for _ in range(turns_of(event.n)):
        value = turned(value)
    return value


@dataclass
class Expected:
    """Every output by its name, and every state by operator, name and key."""

    outputs: dict[str, Rows] = field(default_factory=dict)
    states: dict[str, dict[Any, Any]] = field(default_factory=dict)


def expected_of_orders(events: Iterable[Event]) -> Expected:
    """Of all events, with every window and bucket at its end."""
    totals, rounds = Counter(), Counter()  # type: ignore[var-annotated]
    seen, weight, turns, last = Counter(), Counter(), Counter(), {}  # type: ignore[var-annotated]
    windows: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
    deals: dict[int, tuple[list[Event], list[Event]]] = defaultdict(lambda: ([], []))
    for each in events:
        seen[each.k] += 1
        weight[each.k] += each.amount
        last[each.k] = each.n
        totals[each.n, each.k, seen[each.k], weight[each.k]] += 1
        window = windows[(each.k, *bounds_of(each.at_us))]
        window[0] += 1
        window[1] += each.amount
        deals[each.deal][each.kind == "payment"].append(each)
        if each.n % LOOP_EVERY == 0:
            turns[each.k] += turns_of(each.n)
            rounds[each.n, each.k, final_value(each)] += 1
    outputs = {
        "totals": totals,
        "windows": Counter((*key, *values) for key, values in windows.items()),
        "buckets": Counter((k, end, *values) for (k, _, end), values in windows.items()),
        "pairs": _pairs(deals.values()),
        "rounds": rounds,
    }
    states = {
        "totals.seen": dict(seen),
        "totals.weight": dict(weight),
        "totals.last": last,
        "turn.turns": dict(turns),
    }
    return Expected(outputs, states)


def _pairs(deals: Iterable[tuple[list[Event], list[Event]]]) -> Rows:
    return Counter(
        (order.deal, order.n, payment.n)
        for orders, payments in deals
        for order in orders
        for payment in payments
        if 0 <= payment.at_us - order.at_us <= WITHIN_US
    )


def expected_of_accounts(moves: Iterable[Move]) -> Expected:
    seen, kinds = Counter(), defaultdict(Counter)  # type: ignore[var-annotated]
    rows: Rows = Counter()
    for each in moves:
        seen[each.k] += 1
        kinds[each.k][each.kind] += each.amount
        rows[each.n, each.k, each.amount] += 1
    outputs = {
        "moves": rows,
        "copies": Counter({row: times for row, times in rows.items() if row[1] % 2 == 0}),
        "balances": Counter(seen.items()),
    }
    states = {
        "accounts.seen": dict(seen),
        "accounts.twice": {k: 2 * count for k, count in seen.items()},
        "accounts.kinds": {k: dict(by_kind) for k, by_kind in kinds.items()},
    }
    return Expected(outputs, states)


class Prefixes:
    """What the state of a key must be after so many rows of it, or at an offset."""

    def __init__(self) -> None:
        self._numbers: dict[int, list[int]] = defaultdict(list)
        self._offsets: dict[int, list[int]] = defaultdict(list)
        self._ends: Counter[int] = Counter()

    def add(self, event: Event) -> None:
        self._numbers[event.k].append(event.n)
        self._offsets[event.k].append(self._ends[event.partition])
        self._ends[event.partition] += 1

    def produced(self, k: int) -> int:
        return len(self._numbers[k])

    def last_of(self, k: int, count: int) -> int | None:
        """The number of a key's row number ``count``; None if there is none."""
        numbers = self._numbers[k]
        return numbers[count - 1] if 0 < count <= len(numbers) else None

    def count_at(self, k: int, offset: int) -> int:
        """How many rows of a key are before an offset of its partition."""
        return bisect_left(self._offsets[k], offset)

"""A compiled function for whole jobs: states of all kinds, and rows for which its kernel traps."""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

import mainstay as ms

TAKEN = "account string, amount long"
GIVEN = "account string, n long, total long"
ROWS = [
    (f"account-{n % 13}", None if n % 17 == 0 else n % 7 if n % 5 else (1 << 62) + n)
    for n in range(600)
]
"""Some amounts are None, and some are so large that two of them have more than 64 bits."""


class Mean:
    """The mean of some numbers."""

    def create(self) -> Any:
        return (0, 0.0)

    def add(self, kept: Any, value: Any) -> Any:
        return (kept.n + 1, kept.total + value)

    def result(self, kept: Any) -> Any:
        return kept.total / kept.n


class Account(ms.KeyedProcess, compiled=True):
    n = ms.ReducingState("long", operator.add)
    total = ms.ValueState("long")
    last = ms.ValueState("struct<name: string, amount: long>")
    mean = ms.AggregatingState(Mean(), "struct<n: long, total: double>")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.add(1)
        amount = row.amount or 0
        # Twice a large one is beyond 64 bits: the kernel traps, and Python does not.
        total = ((self.total.get() or 0) + amount + amount) % 1000
        self.total.update(total)
        self.last.update((row.account, row.amount))
        if row.amount is not None:
            self.mean.add(amount % 100)
        yield row.account, self.n.get(), total


class OwnAccount(Account, compiled=False):
    """The same function, not compiled."""


def expected() -> tuple[dict[str, int], dict[str, tuple[float, int]]]:
    """How many rows each account has, and the sum and the number of what its mean is of."""
    counts: dict[str, int] = defaultdict(int)
    means: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for account, amount in ROWS:
        counts[account] += 1
        if amount is not None:
            total, n = means[account]
            means[account] = (total + amount % 100, n + 1)
    return dict(counts), dict(means)

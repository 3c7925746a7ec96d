"""The data of the benchmark: orders of 100,000 customers, the same in every run.

Order *n* is a function of *n*, so one who knows how far a source has read can say, without the
job, what the totals must be. After ``PERIOD`` orders they repeat: each process makes them once, so
that what is measured is the job and not the making of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KEYS = 100_000
LARGEST_AMOUNT = 100
PERIOD = 1 << 21
SCHEMA = "key long, amount long"

# Two quadratic rounds modulo a prime below 2**31: no product leaves 63 bits, so other engines can
# make the same orders.
_PRIME = 2**31 - 1
_FIRST, _SECOND, _SEED = 1_000_003, 999_983, 20_261

Orders = Callable[[int, int], pa.RecordBatch]
"""``orders(first, count)``: that many orders, from a number on."""


def orders(first: int, count: int) -> pa.RecordBatch:
    """Orders whose keys are spread evenly and come in no order."""
    start = first % PERIOD
    if start + count <= PERIOD:
        return _all_orders().slice(start, count)
    return _made(np.arange(first, first + count, dtype=np.int64))


@cache
def _all_orders() -> pa.RecordBatch:
    return _made(np.arange(PERIOD, dtype=np.int64))


def _made(numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
    numbers = numbers % PERIOD
    one = (numbers * numbers + _FIRST * numbers + _SEED) % _PRIME
    two = (one * one + _SECOND * one + _SEED) % _PRIME
    keys, amounts = two % KEYS, 1 + one % LARGEST_AMOUNT
    return pa.record_batch({"key": pa.array(keys), "amount": pa.array(amounts)})


def totals_of(batches: Iterable[pa.RecordBatch]) -> dict[int, int]:
    """The sum of the amounts of every key, by plain addition."""
    totals = np.zeros(0, np.int64)
    for batch in batches:
        keys = batch.column(0).to_numpy()
        # Sums of doubles are exact here: a batch cannot reach 2**53.
        added = np.bincount(keys, batch.column(1).to_numpy(), len(totals)).astype(np.int64)
        added[: len(totals)] += totals
        totals = added
    seen = np.flatnonzero(totals)
    return dict(zip(seen.tolist(), totals[seen].tolist(), strict=True))

"""The workloads that Mainstay and its peers are measured by: the data, and what must come out.

Record *i* is a function of *i* alone, whatever batch it arrives in, so every system reads the same
data and a result can be checked from the number of records read. The function is small enough to
be written in SQL too (:func:`key_sql`), so an engine on the JVM makes its records there.

Every peer imports this file in its own environment: it uses numpy and pyarrow and nothing else.

=====  ==========================================================================================
W1     a Python function per record, one value of state per key, every record emitted
W2     the engine's own aggregation: sum and count per key
W3     the time from the creation of a record to the sink, at a fixed rate
W6     wordcount on strings: lines split into words, a count per word, every count emitted
=====  ==========================================================================================
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KEYS = 100_000
"""Keys of W1, W2 and W3: int64, uniform."""

LARGEST_AMOUNT = 100
"""Amounts are whole numbers from 1 to this."""

VOCABULARY = 10_000
"""Words of W6: the commonest is a thousandth of the text, the rarest hardly occur."""

WORDS_PER_LINE = 8
PARALLELISM = 2
SNAPSHOT_INTERVAL_S = 1.0
RATE_PER_S = 5_000
"""Records a second in W3, for those who can carry them."""

SEED = 20_261
VERIFIED_RECORDS = 20_000
"""How many records (W6: words) a system that cannot be checked as it runs is checked by."""

ORDERS = pa.schema([("key", pa.int64()), ("amount", pa.int64())])

PERIOD = 1 << 21
"""After so many records the data repeat, so that who can need not make them twice."""

# Two quadratic rounds modulo a prime below 2**31: no product leaves 63 bits, so numpy, Spark and
# Flink agree without any of them having to wrap around.
_PRIME = 2**31 - 1
_FIRST, _SECOND = 1_000_003, 999_983

Integers = npt.NDArray[np.int64]


def _mixed(numbers: Integers) -> tuple[Integers, Integers]:
    """Two numbers below the prime for every record number."""
    x = numbers % PERIOD
    one = (x * x + _FIRST * x + SEED) % _PRIME
    two = (one * one + _SECOND * one + SEED) % _PRIME
    return one, two


def _numbers(first: int, count: int) -> Integers:
    return np.arange(first, first + count, dtype=np.int64)


def columns(first: int, count: int) -> tuple[Integers, Integers]:
    """Keys and amounts of ``count`` records from number ``first`` on."""
    one, two = _mixed(_numbers(first, count))
    return two % KEYS, 1 + one % LARGEST_AMOUNT


def orders(first: int, count: int) -> pa.RecordBatch:
    """The same as a batch with the columns of :data:`ORDERS`."""
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns(first, count)], schema=ORDERS)


def word_ranks(first: int, count: int) -> Integers:
    """The words from number ``first`` on, as ranks below :data:`VOCABULARY`."""
    one, two = _mixed(_numbers(first, count))
    return two % (1 + one % VOCABULARY)


def words(first: int, count: int) -> list[str]:
    """The words themselves; line *n* holds those from number ``n * WORDS_PER_LINE`` on."""
    return [f"w{rank}" for rank in word_ranks(first, count).tolist()]


def lines(first: int, count: int) -> pa.Array:
    """``count`` lines from line ``first`` on, words divided by single spaces."""
    flat = words(first * WORDS_PER_LINE, count * WORDS_PER_LINE)
    step = WORDS_PER_LINE
    return pa.array([" ".join(flat[at : at + step]) for at in range(0, len(flat), step)])


def sums(count: int, first: int = 0) -> dict[int, int]:
    """What W1 and W2 must hold after ``count`` records: the sum of each key that occurred."""
    totals = np.zeros(KEYS, dtype=np.int64)
    for at in range(first, first + count, 1_000_000):
        keys, amounts = columns(at, min(1_000_000, first + count - at))
        # Exact: a sum within a million amounts is far below 2**53.
        totals += np.bincount(keys, weights=amounts, minlength=KEYS).astype(np.int64)
    return {key: total for key, total in enumerate(totals.tolist()) if total}


def counts(count: int, first: int = 0) -> dict[int, int]:
    """How often each key occurs among ``count`` records."""
    found = np.zeros(KEYS, dtype=np.int64)
    for at in range(first, first + count, 1_000_000):
        keys, _ = columns(at, min(1_000_000, first + count - at))
        found += np.bincount(keys, minlength=KEYS)
    return {key: n for key, n in enumerate(found.tolist()) if n}


def word_counts(line_count: int) -> dict[str, int]:
    """What W6 must hold after ``line_count`` lines."""
    ranks = word_ranks(0, line_count * WORDS_PER_LINE)
    found = np.bincount(ranks, minlength=VOCABULARY).tolist()
    return {f"w{rank}": n for rank, n in enumerate(found) if n}


def _modulo_sql(dividend: str, divisor: object) -> str:
    """In Flink a remainder has the divisor's type, so all are made as wide as the dividend."""
    return f"({dividend} % CAST({divisor} AS BIGINT))"


def _mixed_sql(number: str) -> tuple[str, str]:
    x = _modulo_sql(number, PERIOD)
    one = _modulo_sql(f"({x} * {x} + {_FIRST} * {x} + {SEED})", _PRIME)
    two = _modulo_sql(f"({one} * {one} + {_SECOND} * {one} + {SEED})", _PRIME)
    return one, two


def key_sql(number: str) -> str:
    """The key of the record whose number is the BIGINT expression ``number``, as SQL."""
    return _modulo_sql(_mixed_sql(number)[1], KEYS)


def amount_sql(number: str) -> str:
    """Its amount, as SQL."""
    return f"(1 + {_modulo_sql(_mixed_sql(number)[0], LARGEST_AMOUNT)})"


def line_sql(number: str) -> str:
    """The line whose number is the BIGINT expression ``number``, as SQL."""
    parts = []
    for place in range(WORDS_PER_LINE):
        one, two = _mixed_sql(f"({number} * {WORDS_PER_LINE} + {place})")
        rank = _modulo_sql(two, f"(1 + {_modulo_sql(one, VOCABULARY)})")
        parts.append(f"CONCAT('w', CAST({rank} AS STRING))")
    return f"CONCAT_WS(' ', {', '.join(parts)})"

"""Patterns: events a second through the operator by itself, over the state in memory.

A payment below one, then the next one of the card above 500, within a minute: a step that few rows
take, as most patterns begin. Beside it, the same where each row begins or ends a partial match.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, count, median
from benchmarks.sessions import Clock
from mainstay.connectors import Memory, Rows
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.own_states import ENDED, FIRED, MADE_FOR
from mainstay.runtime.row_context import ProcessContext
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.operator import OperatorList

SCHEMA = "card long, at timestamp, amount double"
ROWS, CARDS, BATCH = 1_000_000, 10_000, 1 << 15
ROWS_PER_S = 100_000
"""Of event time."""


def measure(size: Size) -> list[Table]:
    rows = size.of(ROWS)
    table = Table(
        "Patterns",
        ["rows that begin a match", "steps", "events/s"],
        f"{CARDS:,} cards, {rows:,} rows, two steps within a minute, in one process.",
    )
    for share in (0.01, 0.1, 0.5):
        for strict in (True, False):
            took = median([_seconds(rows, share, strict=strict) for _ in range(3)])
            steps = "then" if strict else "followed_by"
            table.add(f"{share:.0%}", steps, count(rows / took))
    return [table]


def _seconds(rows: int, share: float, *, strict: bool) -> float:
    operator = _opened(share, strict=strict)
    batches = [_drawn(first, BATCH) for first in range(0, rows, BATCH)]
    start = time.perf_counter()
    for number, batch in enumerate(batches, start=1):
        operator.process(batch, 0)
        for _ in operator.on_watermark(TimeMark(number * BATCH * 1_000_000 // ROWS_PER_S)):
            pass
    return time.perf_counter() - start


def _drawn(first: int, rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(first)
    times = (first + random.permutation(rows)) * (1_000_000 // ROWS_PER_S)
    return pa.record_batch(
        {
            "card": pa.array(random.integers(0, CARDS, rows)),
            "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "amount": pa.array(random.random(rows)),
        }
    )


def _opened(share: float, *, strict: bool) -> Any:
    amount = ms.col("amount")
    begun = ms.pattern("small", amount < share)
    add = begun.then if strict else begun.followed_by
    env = ms.Environment(parallelism=1)
    source = env.source(Rows(SCHEMA, []), uid="in", watermark=ms.Watermark("at"))
    keyed = source.key_by("card")
    keyed.match(add("big", amount > 1 - share).within("1min"), uid="m").sink(Memory(), uid="out")
    spec = next(spec for _, spec in env.plan().operators() if spec.uid == "m")
    operator: Any = spec.factory.build()
    operator.out = lambda batch: None
    operator.sides = dict.fromkeys(("late", "timed_out"), operator.out)
    ctx = ProcessContext("m", 0, 1)
    assert spec.key is not None
    states = [info for info in spec.states if info.kind.shape != "units"]
    unused: Any = None
    operator.open(
        OperatorContext(
            "m",
            0,
            1,
            1,
            "job",
            Clock(),
            unused,
            unused,
            ctx,
            HeapBackend(states, spec.key.type, 128, ctx),
            {info.name: OperatorList(info) for info in (FIRED, ENDED, MADE_FOR)},
            groups=KeyGroupRange(0, 127),
            max_parallelism=128,
        )
    )
    return operator

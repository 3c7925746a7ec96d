"""The bare loop: what Python itself makes of the workload, with a dictionary and nothing else.

Two processes, each with its own half: no engine, no shuffle, no snapshot, and the records are
Python lists before the clock starts. No engine that calls a Python function per record can be
faster, so a rate as a share of this one says what the engine costs, on any machine.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from mainstay.bench.orders import orders

RECORDS = 1_000_000
READY_S = 60.0

_start_line: list[Any] = []
"""In a process of the pool: where it waits for the others, so that all run at the same time."""


def bare_rate(processes: int, seconds: float) -> float:
    """Records a second of all processes together."""
    context = multiprocessing.get_context("spawn")
    # Processes inherit a barrier as they start; it cannot be sent to them afterwards.
    barrier = context.Barrier(processes, timeout=READY_S)
    with ProcessPoolExecutor(processes, context, _line_up, (barrier,)) as pool:
        return sum(pool.map(_rate, range(processes), [seconds] * processes))


def _line_up(barrier: Any) -> None:
    _start_line.append(barrier)


def _rate(number: int, seconds: float) -> float:
    """One process: its rate over rounds of the same records."""
    columns = orders(number * RECORDS, RECORDS).columns
    keys, amounts = (column.to_pylist() for column in columns)
    state: dict[int, int] = {}
    _round(keys, amounts, state)
    _start_line[0].wait()
    began, rounds = time.perf_counter(), 0
    while (elapsed_s := time.perf_counter() - began) < seconds:
        _round(keys, amounts, state)
        rounds += 1
    return rounds * RECORDS / elapsed_s


def _round(keys: list[int], amounts: list[int], state: dict[int, int]) -> None:
    out = []
    for key, amount in zip(keys, amounts, strict=True):
        total = state[key] = state.get(key, 0) + amount
        out.append((key, total))

"""What two processes do without any engine: no shuffle, no snapshot, no result kept.

An upper bound for the language and the library, not a competitor: W1 is a dictionary in a loop
over prebuilt lists, W2 is pyarrow's ``group_by`` over batches of a million rows.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from typing import Any

import pyarrow as pa

from benchmarks import workloads
from benchmarks.peers import answer

SETTINGS = {"W1": ["dict loop"], "W2": ["pyarrow group_by"]}
LIST_RECORDS = 1_000_000
GROUPED_ROWS = 1_000_000
WARM_UP_ROUNDS = 2


class DictLoop:
    """W1's function without an engine; every round goes over the same lists."""

    def __init__(self, process: int) -> None:
        self.first = process * LIST_RECORDS
        keys, amounts = workloads.columns(self.first, LIST_RECORDS)
        self.keys, self.amounts = keys.tolist(), amounts.tolist()
        self.state: dict[int, int] = {}

    def round(self) -> int:
        state = self.state
        out = []
        for key, amount in zip(self.keys, self.amounts, strict=True):
            total = state[key] = state.get(key, 0) + amount
            out.append((key, total))
        return len(out)

    def is_right(self, rounds: int) -> bool:
        expected = workloads.sums(LIST_RECORDS, self.first)
        return self.state == {key: total * rounds for key, total in expected.items()}


class GroupBy:
    """W2's query without an engine: every round groups one batch."""

    def __init__(self, process: int) -> None:
        self.first = process * GROUPED_ROWS
        self.table = pa.Table.from_batches([workloads.orders(self.first, GROUPED_ROWS)])

    def round(self) -> int:
        self.grouped = self.table.group_by("key", use_threads=False).aggregate(
            [("amount", "sum"), ("amount", "count")]
        )
        return self.table.num_rows

    def is_right(self, rounds: int) -> bool:
        keys, totals = self.grouped["key"].to_pylist(), self.grouped["amount_sum"].to_pylist()
        return dict(zip(keys, totals, strict=True)) == workloads.sums(GROUPED_ROWS, self.first)


def measure(workload: str, process: int, seconds: float, start: Barrier) -> tuple[int, float, bool]:
    loop = DictLoop(process) if workload == "W1" else GroupBy(process)
    for _ in range(WARM_UP_ROUNDS):
        loop.round()
    start.wait()
    records, rounds, began = 0, WARM_UP_ROUNDS, time.perf_counter()
    while time.perf_counter() - began < seconds:
        records += loop.round()
        rounds += 1
    return records, time.perf_counter() - began, loop.is_right(rounds)


def _in_process(workload: str, process: int, seconds: float, start: Barrier, results: Any) -> None:
    results.put(measure(workload, process, seconds, start))


def main() -> None:
    asked = answer.request(SETTINGS, answer.parser(SETTINGS).parse_args())
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(workloads.PARALLELISM), context.SimpleQueue()
    processes = [
        context.Process(
            target=_in_process, args=(asked.workload, number, asked.seconds, start, results)
        )
        for number in range(workloads.PARALLELISM)
    ]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    answer.say(
        "no engine",
        asked,
        answer.Window(sum(n for n, _, _ in found), max(s for _, s, _ in found)),
        records_per_s=sum(n / s for n, s, _ in found),
        verified=all(right for _, _, right in found),
        note="two processes side by side; no shuffle, no snapshot",
    )


if __name__ == "__main__":
    main()

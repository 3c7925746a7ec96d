"""What a source costs an epoch that has many splits in line, or has given many out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.report import Size, Table, count, median
from mainstay.runtime.connector import Split
from mainstay.runtime.coordinator.splits import SplitBook
from mainstay.runtime.operators.source import ReadingSplit
from mainstay.runtime.own_states import SPLITS
from mainstay.state.operator import OperatorList

SPLIT_COUNTS = (1_000, 10_000, 100_000)


def splits_table(size: Size) -> Table:
    table = Table(
        "Splits",
        ["splits", "cut ms", "encode ms", "acknowledged bytes", "notes ms"],
        "CPU of a reader that has so many splits in line: of the cut, on the loop, and of what it "
        "acknowledges. Notes are what the coordinator has of a source that has given so many out.",
    )
    for number in sorted({size.of(each) for each in SPLIT_COUNTS}):
        table.add(count(number), *_measured(number, size.repeats))
    return table


def _measured(number: int, repeats: int) -> list[str]:
    splits = [_split(each) for each in range(number)]
    reading = [ReadingSplit(split) for split in splits]
    units = OperatorList(SPLITS)
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits)

    def cut() -> list[Any]:
        units.update([split.to_unit() for split in reading])
        return units.copy_units()

    kept = cut()  # the first has to write each of them down
    cut_ms, encode_ms, notes_ms = (
        1e3 * median([_cpu(work) for _ in range(repeats)])
        for work in (cut, lambda: units.encode(kept), book.notes)
    )
    acknowledged = len(units.encode(kept).data)
    return [f"{cut_ms:.1f}", f"{encode_ms:.1f}", count(acknowledged), f"{notes_ms:.2f}"]


def _split(number: int) -> Split:
    path = f"/data/orders/2026/11/18/part-{number:08d}-0123456789abcdef.parquet"
    return Split(path, {"path": path, "size": 123_456})


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began

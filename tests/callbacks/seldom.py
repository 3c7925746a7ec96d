"""Functions whose callbacks are called seldom: when an epoch was given up, and of older states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import mainstay as ms
from mainstay.connectors import Generate, Memory
from tests.callbacks.conducts import Fault
from tests.callbacks.plain_kinds import OUT
from tests.callbacks.rows import COUNT, ROWS, SCHEMA
from tests.callbacks.running import Outcome, finish

HALF = COUNT // 2


class GivenUp(ms.KeyedProcess):
    """Numbers the rows of each key, and does wrong when an epoch was given up."""

    count = ms.ValueState("long")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        return ctx.key, self.count.get()

    def on_snapshot_aborted(self, epoch: int) -> None:
        self.fault()


class Numbering(ms.KeyedProcess):
    """As it was first: it keeps numbers."""

    count = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        return ctx.key, self.count.get()


def migrated(fault: Fault) -> ms.KeyedProcess:
    """As it is later: it keeps texts, into which older numbers are turned."""

    def own_migrate(old: int) -> str:
        fault()
        return str(old)

    class Spelling(ms.KeyedProcess):
        count = ms.ValueState("string", migrate=own_migrate)

        def process(self, row: Any, ctx: Any) -> Any:
            self.count.update(str(int(self.count.get() or 0) + 1))
            return ctx.key, int(self.count.get())

    return Spelling()


def given(first: int, count: int) -> pa.RecordBatch:
    columns: Iterator[Any] = zip(*ROWS[first : first + count], strict=True)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def upgraded(folder: Path, function: ms.KeyedProcess, max_failures: int) -> Outcome:
    """What came of the job with the later function, after one with the first."""
    for each, end, failures in ((Numbering(), HALF, 0), (function, COUNT, max_failures)):
        env = ms.Environment(
            spark="embedded",
            parallelism=2,
            snapshots=ms.Snapshots(folder / "snapshots", every="10ms"),
            restart=ms.Restart(max_failures=failures, backoff="1ms"),
            restore="latest-or-new",
        )
        sink = Memory()
        source = env.source(Generate(SCHEMA, given, end=end, splits=2), uid="in")
        source.key_by("k").process(each, OUT, uid="subject").sink(sink, uid="out")
        seen = finish(env, sink)
    return seen

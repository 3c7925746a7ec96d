"""A program with a job that never ends, as its author would start it: ``program.py DIR NAME``."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

import mainstay as ms


def numbered(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_arrays([[n % 3 for n in numbers], list(numbers)], ["k", "n"])


class Count(ms.KeyedProcess):
    """Counts rows by key."""

    seen = ms.ValueState("long")
    last = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.update((self.seen.get() or 0) + 1)
        self.last.update(row.n)
        yield ctx.key, self.seen.get()


def environment(directory: str, **settings: Any) -> ms.Environment:
    settings = {"spark": "embedded", "ui": True, "restore": "latest-or-new", **settings}
    env = ms.Environment(snapshots=ms.Snapshots(directory, every="100ms", retain=100), **settings)
    endless = ms.connectors.Generate("k long, n long", numbered, splits=2, rows_per_second=500)
    counts = env.source(endless, uid="numbers").key_by("k")
    counts.process(Count(), "k long, n long", uid="counts").sink(ms.connectors.Memory(), uid="out")
    return env


if __name__ == "__main__":
    environment(sys.argv[1]).start(sys.argv[2]).wait()

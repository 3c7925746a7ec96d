"""A process that fills a dictionary or a state, and says by how many bytes it grew.

``python -m benchmarks.ours.memory bare|state KEYS``, always in a process of its own.
"""

from __future__ import annotations

import gc
import sys
import tempfile

import psutil

from benchmarks.bench_worker import Counting, Endless
from benchmarks.ours.price import totals_worker
from benchmarks.ours.visits import Visits

AT_ONCE = 100_000


def main() -> None:
    kind, pages = sys.argv[1], int(sys.argv[2])
    print({"bare": bare, "state": state}[kind](pages))


def bare(pages: int) -> int:
    """A dictionary, filled in the order in which the visits come."""
    visits = Visits(pages)
    before = resident()
    totals: dict[int, int] = {}
    for first in range(0, pages, AT_ONCE):
        batch = visits(first, min(AT_ONCE, pages - first))
        for key, amount in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            totals[key] = totals.get(key, 0) + amount
        del batch, key, amount
    grown = resident() - before
    assert len(totals) == pages
    return grown


def state(pages: int) -> int:
    """A worker with the state of the same content, after its first snapshot."""
    source, sink = Endless(Visits(pages)(0, pages)), Counting()
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        worker = totals_worker(source, sink, directory)
        before = resident()
        worker.run_until(lambda: source.given >= pages)
        worker.run_until(lambda: sink.rows >= pages)
        # One page is enough from here on: the next segment stays small.
        source.focus = 1
        worker.trigger()
        worker.run_until(lambda: worker.is_acknowledged)
        worker.complete()
        worker.run_for(1.0)
        grown = resident() - before
        worker.close()
    return grown


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    main()

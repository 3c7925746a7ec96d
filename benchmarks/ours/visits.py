"""A state of a given size under full load: visits to pages, every page as often as any other.

The first visits touch every page once, so the state is full when as many records were read as
there are pages; from then on every record changes an entry.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from mainstay.api.environment import Environment
from mainstay.bench.orders import SCHEMA, totals_of
from mainstay.bench.progress import manifest_of, records_at
from mainstay.bench.running import (
    SOURCE,
    await_epoch,
    await_true,
    complete_epochs,
    environment,
    start,
)
from mainstay.bench.totals import TOTALS_SCHEMA, RunningTotal
from mainstay.bench.workloads import TOTALS, Workload
from mainstay.drive.remote_job import RemoteJob
from mainstay.snapshot.object_storage import open_storage

# It divides no number of pages that is measured, so the pages come in a cycle that misses none.
_STRIDE = 7_368_787


class Visits:
    """``visits(first, count)``: the page of each, and an amount."""

    def __init__(self, pages: int) -> None:
        self.pages = pages

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        numbers = np.arange(first, first + count, dtype=np.int64)
        pages = numbers % self.pages * _STRIDE % self.pages
        return pa.record_batch({"key": pa.array(pages), "amount": pa.array(numbers % 100 + 1)})


class Relay(RunningTotal):
    """A running total that sends its record on to another page: the next shuffle has work."""

    def __init__(self, pages: int) -> None:
        self.pages = pages

    def process(self, row: Any, ctx: Any) -> tuple[int, int]:
        key, _ = super().process(row, ctx)
        return relayed(key, self.pages), row.amount


def relayed(page: Any, pages: int) -> Any:
    """The page that a relay sends a visit of a page on to; of one, or of an array of them."""
    return (page * 31 + 7) % pages


class PageTotals(Workload):
    """A running total per page, behind as many shuffles as wanted."""

    def __init__(self, pages: int, shuffles: int = 1) -> None:
        super().__init__(orders=Visits(pages))
        self.pages = pages
        self.shuffles = shuffles

    def build(self, env: Environment) -> None:
        stream = self.source(env)
        for number in range(1, self.shuffles):
            relay = Relay(self.pages)
            stream = stream.key_by("key").process(relay, SCHEMA, uid=f"relay-{number}")
        totals = stream.key_by("key").process(RunningTotal(), TOTALS_SCHEMA, uid=TOTALS)
        totals.sink(self.sink, uid="out")

    def expected(self, ranges: Iterable[tuple[int, int]]) -> Mapping[Any, int]:
        return totals_of(self._arriving(first, count) for first, count in ranges)

    def _arriving(self, first: int, count: int) -> pa.RecordBatch:
        """Visits as the last function sees them, behind all relays."""
        batch = self.orders(first, count)
        pages = batch.column(0).to_numpy()
        for _ in range(1, self.shuffles):
            pages = relayed(pages, self.pages)
        return pa.record_batch([pa.array(pages), batch.column(1)], names=batch.schema.names)


@contextmanager
def loaded_job(
    workload: PageTotals, directory: str, place: str, **settings: Any
) -> Iterator[tuple[RemoteJob, Environment]]:
    """A job that runs in a place, with its state full."""
    env = environment(directory, **{"restart": ms.Restart(backoff="100ms"), **settings})
    workload.build(env)
    job = start(env, "bench", place)
    try:
        await_full(job, directory, workload.pages)
        yield job, env
    finally:
        job.cancel()


def await_full(job: RemoteJob, directory: str, pages: int) -> None:
    """Wait for an epoch that holds every page, and for one more: the state is at rest then."""
    storage = open_storage(directory)

    def is_full() -> bool:
        last = complete_epochs(job)[-1:]
        return bool(last) and records_at(manifest_of(storage, last[0].epoch), SOURCE) >= pages

    await_true(job, is_full, f"a state of {pages:,} keys")
    await_epoch(job, time.time())


def checked(workload: Workload, directory: str, env: Environment) -> bool:
    return workload.is_right(open_storage(directory), env)

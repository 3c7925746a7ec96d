"""Callbacks of operators without a key: functions of rows and batches, and ``Process``."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from tests.callbacks.conducts import Fault
from tests.callbacks.kind import AT_ONCE, TOLD, Kind
from tests.callbacks.rows import MIDDLE

OUT = "k string, n long"


def mapped(fault: Fault) -> Any:
    def own_map(row: Any) -> Any:
        fault(row.n)
        return row.k, row.n

    return own_map


def flat_mapped(fault: Fault) -> Any:
    def own_flat_map(row: Any) -> Any:
        fault(row.n)
        return [(row.k, row.n)]

    return own_flat_map


def yielded(fault: Fault) -> Any:
    def own_yield(row: Any) -> Any:
        yield row.k, row.n
        fault(row.n)

    return own_yield


def kept(fault: Fault) -> Any:
    def own_filter(row: Any) -> Any:
        fault(row.n)
        return row.n % 2

    return own_filter


def batch_mapped(fault: Fault) -> Any:
    def own_batch(batch: pa.RecordBatch) -> Any:
        fault(pc.max(batch["n"]).as_py())
        return batch.select(["k", "n"])

    return own_batch


def batch_kept(fault: Fault) -> Any:
    def own_mask(batch: pa.RecordBatch) -> Any:
        fault(pc.max(batch["n"]).as_py())
        return pc.greater_equal(batch["n"], 0)

    return own_mask


def shard(fault: Fault) -> Any:
    def own_shard(row: Any) -> int:
        fault(row.n)
        return int(row.n)

    return own_shard


def called(fault: Fault) -> Any:
    async def own_call(row: Any) -> Any:
        fault(row.n)
        return row.k, row.n

    return own_call


def blocking(fault: Fault) -> Any:
    def own_blocking(row: Any) -> Any:
        fault(row.n)
        return row.k, row.n

    return own_blocking


async def unanswered(row: Any) -> Any:
    """Never answers for one of the rows."""
    if row.n == MIDDLE:
        await asyncio.Event().wait()
    return row.k, row.n


def timed_out(fault: Fault) -> Any:
    def own_timeout(row: Any) -> Any:
        fault()
        return row.k, row.n

    return own_timeout


class Hooks:
    """All hooks of a function; the one that is named does wrong."""

    def __init__(self, fault: Fault, at: str) -> None:
        self.fault, self.faulty = fault, at

    def meet(self, hook: str, n: int | None = None) -> None:
        if hook == self.faulty:
            self.fault(n)

    def open(self, ctx: Any) -> None:
        self.meet("open")

    def on_snapshot(self, epoch: int) -> None:
        self.meet("on_snapshot")

    def on_snapshot_complete(self, epoch: int) -> None:
        self.meet("on_snapshot_complete")

    def close(self) -> None:
        self.meet("close")


class Passing(Hooks, ms.Process):
    def process(self, row: Any, ctx: Any) -> Any:
        self.meet("process", row.n)
        return row.k, row.n


class Yielding(Hooks, ms.Process):
    def process(self, row: Any, ctx: Any) -> Any:
        yield row.k, row.n
        self.meet("process", row.n)


class Listing(ms.Process):
    """Gives an iterator of its own, whose ``__next__`` raises."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def process(self, row: Any, ctx: Any) -> Any:
        return Once(self.fault, (row.k, row.n))


class Once:
    def __init__(self, fault: Fault, row: Any) -> None:
        self.fault, self.left = fault, [row]

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if not self.left:
            raise StopIteration
        row = self.left.pop()
        self.fault(row[1])
        return row


class Aside(Hooks, ms.Process):
    """Puts all of its rows into a side output."""

    aside = ms.SideOutput(OUT)

    def process(self, row: Any, ctx: Any) -> Any:
        self.aside.emit((row.k, row.n))
        self.meet("process", row.n)


def odd(rows: Any) -> Any:
    return ((row.k, row.n) for row in rows if row.n % 2)


def hooked(name: str, how: str) -> Kind:
    return Kind(
        f"process-{name}",
        name,
        lambda s, f: s.process(Passing(f, name), OUT, uid="subject"),
        hook=name,
        how=how,
    )


KINDS = (
    Kind("map", "own_map", lambda s, f: s.map(mapped(f), OUT, uid="subject")),
    Kind("flat-map", "own_flat_map", lambda s, f: s.flat_map(flat_mapped(f), OUT, uid="subject")),
    Kind(
        "flat-map-yield",
        "own_yield",
        lambda s, f: s.flat_map(yielded(f), OUT, uid="subject"),
        is_generator=True,
    ),
    Kind(
        "filter",
        "own_filter",
        lambda s, f: s.filter(kept(f), uid="subject").select("k", "n"),
        expected=odd,
    ),
    Kind(
        "map-batches", "own_batch", lambda s, f: s.map_batches(batch_mapped(f), OUT, uid="subject")
    ),
    Kind(
        "filter-batches",
        "own_mask",
        lambda s, f: s.filter_batches(batch_kept(f), uid="subject").select("k", "n"),
    ),
    Kind(
        "partition-by",
        "own_shard",
        lambda s, f: (
            s.select("k", "n", uid="subject")
            .partition_by(shard(f))
            .map(lambda row: row, OUT, uid="behind")
        ),
        hook="partition_by",
    ),
    Kind(
        "map-async",
        "own_call",
        lambda s, f: s.map_async(called(f), OUT, uid="subject"),
        is_generator=True,
    ),
    Kind(
        "map-async-timeout",
        "own_timeout",
        lambda s, f: s.map_async(
            unanswered, OUT, uid="subject", timeout="50ms", on_timeout=timed_out(f)
        ),
        hook="on_timeout",
    ),
    Kind("map-blocking", "own_blocking", lambda s, f: s.map_async(blocking(f), OUT, uid="subject")),
    Kind("process", "process", lambda s, f: s.process(Passing(f, "process"), OUT, uid="subject")),
    Kind(
        "process-yield",
        "process",
        lambda s, f: s.process(Yielding(f, "process"), OUT, uid="subject"),
        is_generator=True,
    ),
    Kind(
        "process-iterator",
        "__next__",
        lambda s, f: s.process(Listing(f), OUT, uid="subject"),
        takes=frozenset({"stop"}),
    ),
    Kind(
        "process-aside",
        "process",
        lambda s, f: s.process(Aside(f, "process"), OUT, uid="subject").side("aside"),
    ),
    hooked("open", AT_ONCE),
    hooked("on_snapshot", "again"),
    hooked("on_snapshot_complete", "again"),
    hooked("close", TOLD),
)

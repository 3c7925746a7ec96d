"""Callbacks of sources and sinks of one's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstay.connectors import (
    Delivery,
    Generate,
    IdempotentSink,
    Memory,
    Order,
    Polled,
    SinkContext,
    SinkRecovery,
    SinkWriter,
    Split,
    SplitReader,
    TransactionId,
    TwoPhaseSink,
    Upserter,
    WriteAheadSink,
)
from tests.callbacks.conducts import Fault
from tests.callbacks.kind import AGAIN, PLANNED, READ, RETRIED, RETRIED_BY_DRIVER, TOLD, Kind
from tests.callbacks.rows import A_POLL, COUNT, MIDDLE, ROWS, SCHEMA, Paced
from tests.callbacks.running import LEADING_UP


class Faulty:
    """The named callback does wrong."""

    fault: Fault
    faulty: str

    def meet(self, callback: str, n: int | None = None) -> None:
        if callback == self.faulty:
            self.fault(n)


# ---------------------------------------------------------------- sources


class OwnSource(Faulty, Paced):
    def __init__(self, fault: Fault, at: str, *, may_block: bool = False) -> None:
        self.fault, self.faulty, self.may_block = fault, at, may_block

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        self.meet("plan")
        return super().plan(seen)

    def read(self, split: Split, offset: Any) -> SplitReader:
        self.meet("read")
        return OwnReader(self, super().read(split, offset))

    def on_complete(self, seen: Any, unfinished: Any) -> None:
        self.meet("on_complete")


class OwnReader(SplitReader):
    def __init__(self, source: OwnSource, inner: Any) -> None:
        self.source, self.inner = source, inner

    def poll(self, max_rows: int) -> Polled:
        if self.inner.position * 2 > MIDDLE:
            self.source.meet("poll")
        polled: Polled = self.inner.poll(max_rows)
        return polled

    def close(self) -> None:
        self.source.meet("close")


def generated(fault: Fault) -> Generate:
    def own_rows(first: int, count: int) -> pa.RecordBatch:
        if first + count > MIDDLE:
            fault()
        columns = zip(*ROWS[first : first + count], strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )

    return Generate(
        SCHEMA, own_rows, end=COUNT, splits=2, batch_rows=A_POLL, rows_per_second=COUNT / 0.05
    )


# ---------------------------------------------------------------- sinks over files


class Shelf(Faulty):
    """Committed rows are files of a folder, which are written once."""

    def __init__(self, fault: Fault, at: str) -> None:
        self.fault, self.faulty = fault, at
        self.folder = Path(fault.folder).with_name("shelf")
        self.folder.mkdir(exist_ok=True)

    def put(self, name: str, rows: Any) -> None:
        draft = self.folder / f".{name}-{os.getpid()}"
        draft.write_text(json.dumps(rows))
        draft.replace(self.folder / name)

    def rows(self) -> list[tuple[Any, ...]]:
        files = [path for path in self.folder.iterdir() if path.name[0] not in ".~"]
        return [tuple(row) for path in files for row in json.loads(path.read_text())]


def listed(batch: pa.RecordBatch) -> list[list[Any]]:
    return [list(row) for row in zip(*(column.to_pylist() for column in batch), strict=True)]


class Ledger(Shelf, TwoPhaseSink[Any]):
    def begin(self, id: TransactionId) -> Any:
        self.meet("begin")
        return [str(id)]

    def write(self, transaction: Any, batch: pa.RecordBatch) -> None:
        rows = listed(batch)
        if self.faulty == "abort" and self.is_first(transaction[0]):
            raise ConnectionError(LEADING_UP)
        self.meet("write", max(row[1] for row in rows))
        transaction += rows

    def pre_commit(self, transaction: Any) -> bytes:
        name, *rows = transaction
        self.put(f"~{name}", rows)
        self.meet("pre_commit")
        return str(name).encode()

    def commit(self, handles: Sequence[bytes]) -> None:
        for handle in handles:
            prepared = self.folder / f"~{handle.decode()}"
            if prepared.exists():
                prepared.replace(self.folder / handle.decode())
            self.meet("commit")

    def is_first(self, name: str) -> bool:
        """Whether a transaction is the first of its attempt and subtask."""
        mark = self.folder / f".first-{name.rpartition('_')[0]}"
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def abort(self, transaction: Any) -> None:
        self.meet("abort")
        (self.folder / f"~{transaction[0]}").unlink(missing_ok=True)

    def recover(self, recovery: SinkRecovery) -> None:
        self.meet("recover")


class Ahead(Shelf, WriteAheadSink):
    def deliver(self, delivery: Delivery) -> None:
        self.put(delivery.key, listed(delivery.rows.combine_chunks().to_batches()[0]))
        self.meet("deliver")


class Upserts(Shelf, IdempotentSink):
    def connect(self, context: SinkContext) -> Upserter:
        self.meet("connect")
        return OwnUpserter(self)


class OwnUpserter(Upserter):
    def __init__(self, sink: Upserts) -> None:
        self.sink = sink

    def upsert(self, batch: pa.RecordBatch, order: Order) -> None:
        for row in listed(batch):
            self.sink.put(f"{row[0]}-{row[1]}", [row])
        self.sink.meet("upsert", max(row[1] for row in listed(batch)))

    def close(self) -> None:
        self.sink.meet("close")


# ---------------------------------------------------------------- sinks over memory


class OwnSink(Faulty, Memory):
    """``deferred`` says that its writer does its work in the background."""

    def __init__(self, fault: Fault, at: str, *, deferred: bool = False) -> None:
        super().__init__()
        self.fault, self.faulty, self.deferred = fault, at, deferred

    def open(self, context: SinkContext) -> SinkWriter:
        self.meet("open")
        return OwnWriter(self, super().open(context))

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        super().commit_epoch(epoch, handles)
        self.meet("commit_epoch")

    def recover(self, recovery: SinkRecovery) -> None:
        self.meet("recover")


class OwnWriter(SinkWriter):
    def __init__(self, sink: OwnSink, inner: SinkWriter) -> None:
        self.sink, self.inner = sink, inner

    def write(self, batch: pa.RecordBatch) -> Any:
        return self.done_or_deferred(lambda: self.take(batch))

    def prepare(self, epoch: int) -> Any:
        return self.done_or_deferred(lambda: self.cut(epoch))

    def take(self, batch: pa.RecordBatch) -> None:
        self.sink.meet("take", max(batch["n"].to_pylist()))
        self.inner.write(batch)

    def cut(self, epoch: int) -> Any:
        self.sink.meet("cut")
        return self.inner.prepare(epoch)

    def done_or_deferred(self, work: Callable[[], Any]) -> Any:
        return work if self.sink.deferred else work()

    def close(self) -> None:
        self.sink.meet("close")


def source(at: str, how: str = READ, *, may_block: bool = False, **more: Any) -> Kind:
    name = f"source-{at}{'-blocking' if may_block else ''}"
    make = lambda f: OwnSource(f, at, may_block=may_block)  # noqa: E731
    return Kind(name, at, uid="in", how=how, source=make, shows_frames=at != "on_complete", **more)


def sink(cls: Any, name: str, at: str, how: str = AGAIN, **options: Any) -> Kind:
    make = lambda f: cls(f, at, **options)  # noqa: E731
    return Kind(f"{name}-{at}", at, uid="out", how=how, sink=make)


KINDS = (
    source("plan", PLANNED),
    source("read"),
    source("poll"),
    source("read", may_block=True),
    source("poll", may_block=True),
    source("close", takes=frozenset({"away"})),
    source("on_complete", TOLD),
    Kind("source-generate", "own_rows", uid="in", how=READ, source=generated),
    sink(OwnSink, "sink", "open"),
    sink(OwnSink, "sink", "take"),
    sink(OwnSink, "sink", "cut"),
    sink(OwnSink, "sink", "close", TOLD),
    sink(OwnSink, "sink", "commit_epoch", RETRIED_BY_DRIVER),
    sink(OwnSink, "sink", "recover", RETRIED_BY_DRIVER),
    sink(OwnSink, "deferred", "take", RETRIED, deferred=True),
    sink(OwnSink, "deferred", "cut", RETRIED, deferred=True),
    sink(Ledger, "two-phase", "begin", RETRIED),
    sink(Ledger, "two-phase", "write", RETRIED),
    sink(Ledger, "two-phase", "pre_commit", RETRIED),
    sink(Ledger, "two-phase", "commit", RETRIED),
    sink(Ledger, "two-phase", "abort", RETRIED),
    sink(Ledger, "two-phase", "recover", RETRIED_BY_DRIVER),
    sink(Ahead, "write-ahead", "deliver", RETRIED),
    sink(Upserts, "idempotent", "connect"),
    sink(Upserts, "idempotent", "upsert", RETRIED),
    sink(Upserts, "idempotent", "close", TOLD),
)

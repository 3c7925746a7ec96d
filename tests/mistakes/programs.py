"""Right programs, as a newcomer would write them. A mistake is an edit of one of them.

Each counts orders by customer and ends; ``ORDERS`` is edited to be higher where a job goes on.
"""

from __future__ import annotations

ORDERS = 400

COUNT = f"""\
import mainstay as ms

ORDERS = {ORDERS}


class Count(ms.KeyedProcess):
    orders = ms.ReducingState("long", lambda a, b: a + b)

    def open(self, ctx):
        self.subtask = ctx.subtask

    def process(self, row, ctx):
        self.orders.add(1)
        yield ctx.key, self.orders.get()

    def on_snapshot_complete(self, epoch):
        self.epoch = epoch

    def close(self):
        self.subtask = None


def order(row):
    return row.id, f"customer {{row.id % 10}}"


def is_order(row):
    return row.id >= 0


def customer(row):
    return row.customer


env = ms.Environment(
    spark="embedded",
    snapshots=ms.Snapshots("./snapshots", every="100ms"),
    restore="latest-or-new",
)
numbers = ms.connectors.Sequence(end=ORDERS, rows_per_second=2000)
counts = (
    env.source(numbers, uid="numbers")
    .map(order, "id long, customer string", uid="orders")
    .filter(is_order, uid="real")
    .key_by(customer, "string", uid="customer")
    .process(Count(), "customer string, count long", uid="counts")
)
counts.sink(ms.connectors.ParquetSink("./counts"), uid="out")
job = env.start("count")
print(job.wait())
"""

REDUCE = f"""\
import mainstay as ms

ORDERS = {ORDERS}


def first(row):
    return f"customer {{row.id % 10}}", 1


def total(so_far, row):
    return row.customer, so_far.count + row.count


env = ms.Environment(
    spark="embedded",
    snapshots=ms.Snapshots("./snapshots", every="100ms"),
    restore="latest-or-new",
)
(
    env.source(ms.connectors.Sequence(end=ORDERS, rows_per_second=2000), uid="numbers")
    .map(first, "customer string, count long", uid="orders")
    .key_by("customer")
    .reduce(total, uid="counts")
    .sink(ms.connectors.ParquetSink("./counts"), uid="out")
)
print(env.start("count").wait())
"""

AGGREGATE = f"""\
import mainstay as ms

ORDERS = {ORDERS}


class Counting:
    def create(self):
        return 0

    def add(self, accumulator, value):
        return accumulator + value

    def result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one + other


class Count(ms.KeyedProcess):
    orders = ms.AggregatingState(Counting(), "long")

    def process(self, row, ctx):
        self.orders.add(1)
        yield f"customer {{ctx.key}}", self.orders.get()


env = ms.Environment(
    spark="embedded",
    snapshots=ms.Snapshots("./snapshots", every="100ms"),
    restore="latest-or-new",
)
(
    env.source(ms.connectors.Sequence(end=ORDERS, rows_per_second=2000), uid="numbers")
    .key_by(lambda row: row.id % 10, "long", uid="customer")
    .process(Count(), "customer string, count long", uid="counts")
    .sink(ms.connectors.ParquetSink("./counts"), uid="out")
)
print(env.start("count").wait())
"""

FILES = f"""\
import pathlib

import mainstay as ms

ORDERS = {ORDERS}


class Count(ms.KeyedProcess):
    orders = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        self.orders.add(1)
        yield ctx.key, self.orders.get()


def write_orders(folder):
    folder.mkdir(exist_ok=True)
    for first in range(0, ORDERS, 200):
        lines = [f"{{n}},customer {{n % 10}}" for n in range(first, first + 200)]
        write(folder / f"{{first:05}}.csv", "id,customer\\n" + "\\n".join(lines) + "\\n")


def write(path, text, encoding="utf-8"):
    if not path.exists():
        path.write_text(text, encoding=encoding)


write_orders(pathlib.Path("orders"))
env = ms.Environment(
    spark="embedded",
    snapshots=ms.Snapshots("./snapshots", every="100ms"),
    restore="latest-or-new",
)
orders = ms.connectors.Files("./orders/*.csv", schema="id long, customer string")
(
    env.source(orders, uid="orders")
    .key_by("customer")
    .process(Count(), "customer string, count long", uid="counts")
    .sink(ms.connectors.ParquetSink("./counts"), uid="out")
)
print(env.start("count").wait())
"""
DAMAGED = FILES.replace('customer string")', 'customer string", malformed="skip")').replace(
    "env = ms.Env", 'write(pathlib.Path("orders/x.csv"), "id,customer\\nx1,c\\n")\nenv = ms.Env'
)

OWN_SOURCE = f"""\
import pyarrow as pa

import mainstay as ms
from mainstay.connectors import Polled, Source, Split, SplitReader

ORDERS = {ORDERS}


class Orders(Source):
    schema = pa.schema({{"customer": pa.string()}})

    def plan(self, seen):
        return [Split(f"orders-{{n}}", n) for n in range(0, ORDERS, 100)]

    def read(self, split, offset):
        return OrdersReader(split.data if offset is None else offset, split.data + 100)


class OrdersReader(SplitReader):
    def __init__(self, offset, end):
        self.offset, self.end = offset, end

    def poll(self, max_rows):
        first = self.offset
        self.offset = min(first + 10, self.end)
        names = [f"customer {{n % 10}}" for n in range(first, self.offset)]
        batch = pa.RecordBatch.from_pydict({{"customer": names}}, schema=Orders.schema)
        return Polled(batch, self.offset, finished=self.offset == self.end, ready_in_s=0.005)


class Count(ms.KeyedProcess):
    orders = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        self.orders.add(1)
        yield ctx.key, self.orders.get()


env = ms.Environment(
    spark="embedded",
    snapshots=ms.Snapshots("./snapshots", every="100ms"),
    restore="latest-or-new",
)
(
    env.source(Orders(), uid="orders")
    .key_by("customer")
    .process(Count(), "customer string, count long", uid="counts")
    .sink(ms.connectors.ParquetSink("./counts"), uid="out")
)
print(env.start("count").wait())
"""

OWN_SINK = f"""\
import json
import pathlib

import mainstay as ms
from mainstay.connectors import Sink, SinkWriter

ORDERS = {ORDERS}


class Counts(Sink):
    def open(self, context):
        return CountsWriter(context.subtask)

    def commit(self, handles):
        pathlib.Path("committed").mkdir(exist_ok=True)
        for handle in handles:
            name, rows = json.loads(handle)
            pathlib.Path("committed", name).write_text(json.dumps(rows))


class CountsWriter(SinkWriter):
    def __init__(self, subtask):
        self.subtask, self.rows = subtask, []

    def write(self, batch):
        self.rows += [list(row.values()) for row in batch.to_pylist()]

    def prepare(self, epoch):
        rows, self.rows = self.rows, []
        return json.dumps([f"{{epoch}}-{{self.subtask}}.json", rows]).encode()


class Count(ms.KeyedProcess):
    orders = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        self.orders.add(1)
        yield f"customer {{ctx.key}}", self.orders.get()


env = ms.Environment(
    spark="embedded",
    snapshots=ms.Snapshots("./snapshots", every="100ms"),
    restore="latest-or-new",
)
(
    env.source(ms.connectors.Sequence(end=ORDERS, rows_per_second=2000), uid="numbers")
    .key_by(lambda row: row.id % 10, "long", uid="customer")
    .process(Count(), "customer string, count long", uid="counts")
    .sink(Counts(), uid="out")
)
print(env.start("count").wait())
"""

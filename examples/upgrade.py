"""A job that is stopped and goes on as another version of itself, with the state it had.

Version 1 adds up what each customer spends in an ``int``. Version 2 adds up in a ``long`` and keeps
the largest order as well. One that has lost the total by mistake is refused before anything starts.
"""

import time
from tempfile import TemporaryDirectory

import pyarrow as pa

import mainstay as ms
from mainstay.errors import RestoreError

ORDERS = 1000


def add(a, b):
    return a + b


class Version1(ms.KeyedProcess):
    total = ms.ReducingState("int", add)

    def process(self, row, ctx):
        self.total.add(row.amount)
        yield ctx.key, self.total.get(), None


class Version2(ms.KeyedProcess):
    total = ms.ReducingState("long", add)
    largest = ms.ReducingState("long", max)

    def process(self, row, ctx):
        self.total.add(row.amount)
        self.largest.add(row.amount)
        yield ctx.key, self.total.get(), self.largest.get()


class Mistake(ms.KeyedProcess):
    totals = ms.ReducingState("long", add)  # was called "total"

    def process(self, row, ctx):
        self.totals.add(row.amount)
        yield ctx.key, self.totals.get(), None


def orders(first, count):
    numbers = range(first, first + count)
    columns = [[f"c{n % 3}" for n in numbers], [n % 7 for n in numbers]]
    return pa.RecordBatch.from_arrays(columns, ["customer", "amount"])


def start(version, folder, **settings):
    """Start a version of the job; all of them have one snapshot directory and the same uids."""
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"), **settings)
    source = ms.connectors.Generate(
        "customer string, amount long", orders, end=ORDERS, rows_per_second=ORDERS
    )
    out = ms.connectors.Memory()
    (
        env.source(source, uid="orders")
        .key_by("customer")
        .process(version, "customer string, total long, largest long", uid="spending")
        .sink(out, uid="out")
    )
    return env.start("spending"), out


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        job, out = start(Version1(), folder)
        time.sleep(0.5)
        job.stop()
        print("version 1:", job.status)

        job, out = start(Mistake(), folder, restore="latest")
        try:
            job.wait(progress=False)
        except RestoreError as error:
            print("mistake:", error)

        job, out = start(Version2(), folder, restore="latest")
        print("version 2:", job.wait(progress=False))
        print(*job.restored, sep="\n")
        print(sorted({customer: total for customer, total, _ in out.rows()}.items()))

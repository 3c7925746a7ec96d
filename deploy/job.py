"""The job of the container: orders without an end, their totals, and a page to watch them.

A container that is stopped sends SIGTERM, and the next one goes on from the last epoch in /data.
"""

import os
import sys

import pyarrow as pa

import mainstay as ms

CUSTOMERS = 1000


class RunningTotal(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        self.total.add(row.amount)
        yield ctx.key, self.total.get()


def orders(first, count):
    numbers = range(first, first + count)
    customers = [f"c{number % CUSTOMERS}" for number in numbers]
    return pa.RecordBatch.from_arrays([customers, [1] * count], ["customer", "amount"])


def build(env, out, end=None):
    source = ms.connectors.Generate(
        "customer string, amount long", orders, end=end, rows_per_second=2000
    )
    (
        env.source(source, uid="orders")
        .key_by("customer")
        .process(RunningTotal(), "customer string, total long", uid="totals")
        .sink(out, uid="out")
    )


def environment(data):
    """Settings from the environment of the container.

    With ``MAINSTAY_SPARK`` the job runs on Spark: on the master that ``spark-submit`` or
    ``mainstay run`` were told, or else on this machine. ``MAINSTAY_HA`` has several drivers.
    """
    with open(os.environ["MAINSTAY_TOKEN_FILE"]) as file:
        token = file.read().strip()
    return ms.Environment(
        spark=None if "MAINSTAY_SPARK" in os.environ else "embedded",
        parallelism=2,
        snapshots=ms.Snapshots(f"{data}/snapshots", every="10s"),
        restore="latest-or-new",
        restart=ms.Restart(),
        ha=ms.HighAvailability() if "MAINSTAY_HA" in os.environ else None,
        ui=ms.Ui(
            host="0.0.0.0",
            port=int(os.environ.get("MAINSTAY_PORT", "8080")),
            token=token,
            hosts=("job", "order-totals", "localhost"),
        ),
    )


if __name__ == "__main__":
    data = os.environ.get("MAINSTAY_DATA", "/data")
    end = int(os.environ["MAINSTAY_ORDERS"]) if "MAINSTAY_ORDERS" in os.environ else None
    env = environment(data)
    build(env, ms.connectors.ParquetSink(f"{data}/totals"), end)
    job = env.start("order-totals")
    job.wait()
    print(job.status)
    sys.exit(job.exit_code)

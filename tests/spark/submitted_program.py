"""A program as users submit it: ``spark-submit ... submitted_program.py FOLDER``.

It names no master and no session. What it came to, and where it had its packages from, is in files
of the folder.
"""

import json
import sys
import urllib.request
from pathlib import Path

import pyarrow
from pyspark import SparkContext

import mainstay as ms

SCHEMA = "customer string, total long, ours string, arrow string"
ORDERS = [(f"c{number % 5}", number) for number in range(200)]


class RunningTotal(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        self.total.add(row.amount)
        yield ctx.key, self.total.get(), ms.__file__, pyarrow.__file__


def main(folder: str) -> None:
    env = ms.Environment(
        parallelism=2,
        snapshots=ms.Snapshots(f"{folder}/snapshots", every="1s"),
        restore="latest-or-new",
        ui=True,
    )
    (
        env.source(ms.connectors.Rows("customer string, amount long", ORDERS), uid="orders")
        .key_by("customer")
        .process(
            RunningTotal(), "customer string, total long, ours string, arrow string", uid="totals"
        )
        .sink(ms.connectors.ParquetSink(f"{folder}/totals"), uid="out")
    )
    job = env.start("order-totals")
    page = urllib.request.urlopen(job.url.partition("#")[0]).read().decode()
    said = {
        "status": str(job.wait()),
        "master": SparkContext._active_spark_context.master,
        "application": SparkContext._active_spark_context.appName,
        "package": ms.__file__,
        "page": page,
    }
    Path(folder, "said.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Rows a second through the ingest log of a streaming DataFrame, into totals by customer.

``python -m benchmarks.connectors.dataframes`` prints the figure. Spark reads Parquet files, a few
for each micro-batch, and writes the log; the job reads the log. What counts is the time from the
first row that the job has read to the last one: the start of Spark and of the workers is left out.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import mainstay as ms

FILES, ROWS_PER_FILE, FILES_PER_BATCH = 30, 100_000, 5
SCHEMA = "customer string, amount long, id long"


def write_orders(folder: Path) -> None:
    """Parquet files of orders, each with ids of its own."""
    folder.mkdir()
    for number in range(FILES):
        ids = np.arange(ROWS_PER_FILE) + number * ROWS_PER_FILE
        customers = pa.array([f"customer {n}" for n in range(1_000)]).take(pa.array(ids % 1_000))
        table = pa.table({"customer": customers, "amount": ids % 100, "id": ids})
        pq.write_table(table, folder / f"{number}.parquet")


def started(spark: SparkSession, folder: Path) -> ms.Job:
    """A job of two workers that reads the files as a stream."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH)
    env = ms.Environment(snapshots=ms.Snapshots(str(folder / "snapshots"), every="1s"))
    orders = env.from_dataframe(stream.parquet(str(folder / "orders")), uid="orders")
    totals = orders.key_by("customer").aggregate(total=ms.sum("amount"), uid="totals")
    totals.sink(ms.connectors.Memory(), uid="out")
    return env.start("ingest")


def measured(job: ms.Job) -> tuple[int, float]:
    """How many rows were read after the first look that found some, and in how many seconds."""
    first: tuple[int, float] | None = None
    while True:
        figures = job.metrics()
        rows = sum(found.rows for (uid, _), found in figures.items() if uid == "orders")
        if rows and first is None:
            first = rows, time.monotonic()
        if first is not None and rows >= FILES * ROWS_PER_FILE:
            return rows - first[0], time.monotonic() - first[1]
        time.sleep(0.05)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_orders(folder / "orders")
        spark = SparkSession.builder.master("local[4]").getOrCreate()
        job = started(spark, folder)
        rows, seconds = measured(job)
        job.stop()
        print(f"{rows:,} rows in {seconds:.1f} s: {rows / seconds:,.0f} rows/s")
        spark.stop()


if __name__ == "__main__":
    main()

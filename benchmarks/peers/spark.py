"""Spark Structured Streaming: W1, W2, W3 and W6 in a local session with two cores.

A snapshot is a micro-batch here, so the batch size stands for the interval. What the state store
holds when the query has stopped is compared with the reference over all records that were read.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor

from benchmarks import workloads
from benchmarks.peers import answer

SETTINGS = {
    "W1": ["rows", "pandas"],
    "W2": ["rocksdb", "memory"],
    "W3": ["aggregate", "rows"],
    "W6": ["aggregate", "rows"],
}
# A call of the state costs a round trip over a socket, so batches are small where functions are
# Python's: larger ones only take longer, because nearly every record has a key of its own.
BATCH_ROWS = {
    ("W1", "rows"): 8_000,
    ("W1", "pandas"): 2_000,
    ("W2", "rocksdb"): 1_000_000,
    ("W2", "memory"): 1_000_000,
    ("W6", "aggregate"): 125_000,
    ("W6", "rows"): 12_500,
}
# transformWithState cannot carry what the others are given.
RATE_PER_S = {"aggregate": workloads.RATE_PER_S, "rows": 1_000}
PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
LONGEST_S = 200.0
START_S = 3.0


def session(asked: answer.Request) -> SparkSession:
    # Spark's workers would otherwise be whatever python3 is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    is_memory = asked.setting == "memory"
    provider = "HDFSBackedStateStoreProvider" if is_memory else "RocksDBStateStoreProvider"
    builder = SparkSession.builder.master(f"local[{workloads.PARALLELISM}]")
    settings = {
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(workloads.PARALLELISM),
        "spark.sql.streaming.stateStore.providerClass": PROVIDERS + provider,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class RowTotals(StatefulProcessor):
    """W1's function on rows: the state is read and written once per key and batch."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "total long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        total = self.total.get()[0] if self.total.exists() else 0
        for row in rows:
            total += row.amount
            yield Row(key=key[0], total=total, created=row.created)
        self.total.update((total,))

    def close(self) -> None:
        """Nothing is held open."""


class PandasTotals(StatefulProcessor):
    """W1's function on frames."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "total long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        total = self.total.get()[0] if self.total.exists() else 0
        for frame in rows:
            totals = total + frame["amount"].cumsum()
            total = int(totals.iloc[-1])
            yield pd.DataFrame({"key": key[0], "total": totals, "created": frame["created"]})
        self.total.update((total,))

    def close(self) -> None:
        """Nothing is held open."""


class Pace(DataSource):
    """A source for W3: what is due at a steady rate, stamped when it is made."""

    @classmethod
    def name(cls) -> str:
        return "pace"

    def schema(self) -> str:
        return "key long, amount long, created double"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return PaceReader(float(self.options["rate"]), float(self.options["began"]))


class PaceReader(DataSourceStreamReader):
    def __init__(self, rate_per_s: float, began: float) -> None:
        self.rate_per_s, self.began = rate_per_s, began

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": max(0, int((time.time() - self.began) * self.rate_per_s))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["next"] + end["next"]) // 2
        ranges = [(start["next"], middle), (middle, end["next"])]
        return [InputPartition(chosen) for chosen in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        first, end = partition.value
        batch = workloads.orders(first, end - first)
        # A record is made when it is due, not when Spark comes round to read it.
        made = [self.began + number / self.rate_per_s for number in range(first, end)]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(made, pa.float64())], names=["key", "amount", "created"]
        )


def source(spark: SparkSession, asked: answer.Request) -> DataFrame:
    if asked.workload == "W3":
        spark.dataSource.register(Pace)
        paced = spark.readStream.format("pace").option("rate", RATE_PER_S[asked.setting])
        # Given from here because Spark makes readers in several processes; and a little later than
        # now, so that the start of the query is not a backlog to be worked off.
        return paced.option("began", time.time() + START_S).load()
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", BATCH_ROWS[asked.workload, asked.setting])
        .option("numPartitions", workloads.PARALLELISM)
        .load()
    )
    if asked.workload == "W6":
        line = workloads.line_sql("value")
        return numbers.selectExpr(
            f"explode(split({line}, ' ')) as key", "1L as amount", "0D as created"
        )
    return numbers.selectExpr(
        f"{workloads.key_sql('value')} as key",
        f"{workloads.amount_sql('value')} as amount",
        "0D as created",
    )


def query(records: DataFrame, asked: answer.Request) -> tuple[DataFrame, str]:
    """What is measured, and its output mode."""
    grouped = records.groupBy("key")
    key_type = "string" if asked.workload == "W6" else "long"
    schema = f"key {key_type}, total long, created double"
    if asked.setting == "rows":
        return grouped.transformWithState(RowTotals(), schema, "Append", "None"), "append"
    if asked.setting == "pandas":
        return grouped.transformWithStateInPandas(
            PandasTotals(), schema, "Append", "None"
        ), "append"
    aggregates = [F.sum("amount").alias("total"), F.count("amount").alias("n")]
    if asked.workload == "W3":
        # One row per key and batch, as old as the newest record in it.
        aggregates.append(F.max("created").alias("created"))
    return grouped.agg(*aggregates), "update"


class Ages:
    """W3's sink: how old each row is when the driver has it."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[float, list[float]]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        created = frame.select("created").toArrow()["created"].to_numpy()
        now = time.time()
        self.arrivals.append((now, ((now - created) * 1e3).tolist()))

    def since(self, moment: float) -> list[float]:
        return [age for at, ages in self.arrivals if at >= moment for age in ages]


def progress(running: Any) -> list[tuple[float, int]]:
    """(end, rows so far) of every micro-batch that had rows."""
    samples, rows = [], 0
    for batch in running.recentProgress:
        if batch["numInputRows"]:
            rows += batch["numInputRows"]
            began = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()
            samples.append((began + batch["durationMs"]["triggerExecution"] / 1e3, rows))
    return samples


def await_window(running: Any, seconds: float) -> tuple[list[tuple[float, int]], float]:
    """Let the query run until the window is full, and give its batches and the warm-up's end."""
    gives_up_at = time.time() + LONGEST_S
    while time.time() < gives_up_at:
        if running.awaitTermination(0.2):
            raise SystemExit("the query ended by itself")
        samples = progress(running)
        if not samples:
            continue
        warm_until = samples[0][0] + answer.WARM_UP_S
        warm = [at for at, _ in samples if at >= warm_until]
        if len(warm) >= 2 and warm[-1] - warm[0] >= seconds * 0.8:
            return samples, warm_until
    raise SystemExit(f"no window of {seconds} s within {LONGEST_S} s: the batches take too long")


def verify(spark: SparkSession, asked: answer.Request, checkpoint: Path) -> bool | None:
    """Whether the committed state is the reference over all records of the committed batches."""
    if asked.workload == "W3":
        return None
    committed = 1 + max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    rows = committed * BATCH_ROWS[asked.workload, asked.setting]
    reader = spark.read.format("statestore")
    if asked.setting in ("rows", "pandas"):
        reader = reader.option("stateVarName", "total")
    frame = reader.load(str(checkpoint))
    total = "value.total" if "total" in frame.schema["value"].dataType.names else "value.sum"  # type: ignore[attr-defined]
    state = frame.selectExpr("key.*", f"{total} as total").toArrow()
    found = dict(zip(state.column(0).to_pylist(), state.column(1).to_pylist(), strict=True))
    is_words = asked.workload == "W6"
    return found == (workloads.word_counts(rows) if is_words else workloads.sums(rows))


def paced_note(asked: answer.Request, window: answer.Window) -> str:
    """The rate, and whether Spark was still working off what had piled up as it started."""
    rate = RATE_PER_S[asked.setting]
    return f"{rate:,} records/s{answer.late(window, rate)}"


def run(spark: SparkSession, asked: answer.Request, checkpoint: Path) -> None:
    frame, mode = query(source(spark, asked), asked)
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    ages = Ages()
    writer = writer.foreachBatch(ages) if asked.workload == "W3" else writer.format("noop")
    running = writer.start()
    samples, warm_until = await_window(running, asked.seconds)
    running.stop()
    scale = workloads.WORDS_PER_LINE if asked.workload == "W6" else 1
    window = answer.window(samples, warm_until)
    size = BATCH_ROWS.get((asked.workload, asked.setting))
    answer.say(
        "spark",
        asked,
        replace(window, records=window.records * scale),
        latency_ms=answer.percentiles(ages.since(warm_until)) if asked.workload == "W3" else None,
        verified=verify(spark, asked, checkpoint),
        note=f"{size:,} rows a batch" if size else paced_note(asked, window),
    )


def main() -> None:
    asked = answer.request(SETTINGS, answer.parser(SETTINGS).parse_args())
    spark = session(asked)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        run(spark, asked, Path(directory))
    spark.stop()


if __name__ == "__main__":
    main()

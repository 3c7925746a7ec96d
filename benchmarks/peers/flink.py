"""PyFlink: W1, W2, W3 and W6 on a cluster of two slots in one JVM.

Numbers come from Flink's own sequence source and become records in SQL, so no Python runs before
the function that is measured. W2 is Flink SQL from end to end. Checkpoints are taken every second
with the heap backend; the results go to a sink that discards them.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import sysconfig
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors import Sink, Source
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table

from benchmarks import workloads
from benchmarks.peers import answer
from benchmarks.peers.flink_progress import records_read

SETTINGS = {
    "W1": ["thread", "process"],
    "W2": ["hashmap", "mini-batch"],
    "W3": ["thread", "thread-5ms"],
    "W6": ["thread"],
}
FOREVER = 10**12
SAMPLE_EVERY_S = 0.25
# Results are fetched one call at a time, so a check is small: few records, each several times.
CHECKED, CHECKED_TIMES = 500, 4
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def environment(asked: answer.Request, checkpoints: Path, port: int) -> StreamExecutionEnvironment:
    settings = {
        "parallelism.default": str(workloads.PARALLELISM),
        "rest.bind-port": str(port),
        "rest.port": str(port),
        "metrics.fetcher.update-interval": "100 ms",
        "execution.checkpointing.interval": f"{workloads.SNAPSHOT_INTERVAL_S:g} s",
        "execution.checkpointing.dir": checkpoints.as_uri(),
        "state.backend.type": "hashmap",
        "restart-strategy.type": "none",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.execution-mode": "process" if asked.setting == "process" else "thread",
        "execution.buffer-timeout.interval": "5 ms" if "5ms" in asked.setting else "100 ms",
        "taskmanager.memory.network.max": "128 mb",
        **(MINI_BATCH if asked.setting == "mini-batch" else {}),
    }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def paced_numbers(count: int) -> Source:
    """Numbers at W3's rate. Flink's paced generator takes a list, so it is made on the JVM."""
    jvm = get_gateway().jvm
    numbers = jvm.java.util.ArrayList()
    numbers.addAll(jvm.java.util.stream.LongStream.range(0, count).boxed().toList())
    longs = jvm.org.apache.flink.api.common.typeinfo.Types.LONG
    datagen = jvm.org.apache.flink.connector.datagen
    limiter = jvm.org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy
    lookup = datagen.functions.IndexLookupGeneratorFunction(longs, numbers)
    rate = limiter.perSecond(float(workloads.RATE_PER_S))
    return Source(datagen.source.DataGeneratorSource(lookup, count, rate, longs))


def numbers(flink: StreamExecutionEnvironment, asked: answer.Request, count: int) -> DataStream:
    if asked.workload == "W3":
        source: Source = paced_numbers(count)
    else:
        source = NumberSequenceSource(0, count - 1)
    return flink.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def records(
    tables: StreamTableEnvironment, asked: answer.Request, source: DataStream, number: str
) -> Table:
    """The records whose numbers are the SQL expression ``number`` over the source's ``i``."""
    tables.create_temporary_view("numbers", tables.from_data_stream(source).alias("i"))
    if asked.workload == "W6":
        return tables.sql_query(f"SELECT {workloads.line_sql(number)} AS line FROM numbers")
    stamp = ", CURRENT_ROW_TIMESTAMP() AS created" if asked.workload == "W3" else ""
    key, amount = workloads.key_sql(number), workloads.amount_sql(number)
    return tables.sql_query(f"SELECT {key} AS key, {amount} AS amount{stamp} FROM numbers")


class Totals(KeyedProcessFunction):
    """W1's function, and W6's over pairs of a word and a one."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, int]]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class AgedTotals(Totals):
    """W3's: notes how old each record is when it goes to the sink, in the same thread."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.ages: list[tuple[float, float]] = []

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, int]]:
        yield from super().process_element(value, ctx)
        now = time.time()
        # In thread mode the stamp is still a java.time.Instant.
        self.ages.append((now, now * 1e3 - value[2].toEpochMilli()))

    def close(self) -> None:
        path = Path(self.directory) / f"{uuid.uuid4()}.json"
        path.write_text(json.dumps(self.ages), encoding="utf-8")


def results(
    asked: answer.Request, tables: StreamTableEnvironment, rows: Table, ages: str
) -> DataStream:
    """The stream of (key, total) that W1, W3 and W6 are about."""
    stream = tables.to_data_stream(rows)
    key_type, function = Types.LONG(), AgedTotals(ages) if asked.workload == "W3" else Totals()
    if asked.workload == "W6":
        key_type = Types.STRING()
        pairs = Types.TUPLE([key_type, Types.LONG()])
        stream = stream.flat_map(lambda row: [(word, 1) for word in row[0].split()], pairs)
    keyed = stream.key_by(lambda value: value[0], key_type=key_type)
    return keyed.process(function, Types.TUPLE([key_type, Types.LONG()]))


def aggregate(tables: StreamTableEnvironment, rows: Table) -> Table:
    tables.create_temporary_view("orders", rows)
    return tables.sql_query(
        "SELECT key, SUM(amount) AS total, COUNT(amount) AS n FROM orders GROUP BY key"
    )


def verify(asked: answer.Request, directory: Path) -> bool:
    """Whether the same program over the first records ends with the right totals."""
    flink = environment(asked, directory, free_port())
    tables = StreamTableEnvironment.create(flink)
    source = numbers(flink, asked, CHECKED * CHECKED_TIMES)
    rows = records(tables, asked, source, f"(i % CAST({CHECKED} AS BIGINT))")
    if asked.workload == "W2":
        collected = aggregate(tables, rows).execute().collect()
    else:
        collected = results(asked, tables, rows, str(directory)).execute_and_collect("verify")
    found: dict[Any, int] = {}
    with collected:
        for row in collected:
            found[row[0]] = max(row[1], found.get(row[0], 0))
    is_words = asked.workload == "W6"
    once = workloads.word_counts(CHECKED) if is_words else workloads.sums(CHECKED)
    return found == {key: total * CHECKED_TIMES for key, total in once.items()}


def start(asked: answer.Request, directory: Path, port: int, ages: str) -> Any:
    """Start the job that is measured and give its client."""
    flink = environment(asked, directory, port)
    tables = StreamTableEnvironment.create(flink)
    lasts = int((answer.WARM_UP_S + asked.seconds) * workloads.RATE_PER_S)
    source = numbers(flink, asked, lasts if asked.workload == "W3" else FOREVER)
    rows = records(tables, asked, source, "i")
    if asked.workload == "W2":
        tables.execute_sql(
            "CREATE TABLE nowhere (key BIGINT, total BIGINT, n BIGINT, "
            "PRIMARY KEY (key) NOT ENFORCED) WITH ('connector' = 'blackhole')"
        )
        return aggregate(tables, rows).execute_insert("nowhere").get_job_client()
    stream = results(asked, tables, rows, ages)
    sinks = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2
    stream.sink_to(Sink(sinks.DiscardingSink()))
    return flink.execute_async(asked.workload)


def sampled(job: str, port: int, seconds: float) -> answer.Window:
    """Watch the job through its warm-up and the seconds after it."""
    samples: list[tuple[float, int]] = []
    while not samples or samples[-1][0] - samples[0][0] < answer.WARM_UP_S + seconds:
        read = records_read(port, job)
        if read:
            samples.append((time.time(), read))
        time.sleep(SAMPLE_EVERY_S)
    return answer.window(samples, samples[0][0] + answer.WARM_UP_S)


def aged(directory: str) -> tuple[answer.Window, answer.Latencies]:
    """W3's window and latencies, from what each subtask wrote when the job had ended."""
    arrivals = [a for path in Path(directory).iterdir() for a in json.loads(path.read_text())]
    warm_until = min(at for at, _ in arrivals) + answer.WARM_UP_S
    warm = [(at, age) for at, age in arrivals if at >= warm_until]
    seconds = max(at for at, _ in warm) - warm_until
    return answer.Window(len(warm), seconds, warm_until), answer.percentiles(
        [age for _, age in warm]
    )


def run(asked: answer.Request, directory: Path) -> None:
    ages, checkpoints = directory / "ages", directory / "checkpoints"
    ages.mkdir()
    port, latency_ms = free_port(), None
    verified = None if asked.workload == "W3" else verify(asked, checkpoints)
    client = start(asked, checkpoints, port, str(ages))
    if asked.workload == "W3":
        client.get_job_execution_result().result()
        window, latency_ms = aged(str(ages))
    else:
        window = sampled(str(client.get_job_id()), port, asked.seconds)
        client.cancel().result()
    scale = workloads.WORDS_PER_LINE if asked.workload == "W6" else 1
    answer.say(
        "flink",
        asked,
        replace(window, records=window.records * scale),
        latency_ms=latency_ms,
        verified=verified,
        note="heap state, checkpoints every 1 s",
    )


def main() -> None:
    # The interpreter inside the JVM knows nothing of virtual environments, and must find both
    # Flink's own packages and this one.
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), sysconfig.get_path("purelib")])
    asked = answer.request(SETTINGS, answer.parser(SETTINGS).parse_args())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        run(asked, Path(directory))


if __name__ == "__main__":
    main()

"""One query in Flink SQL, measured in a process of its own.

>>> python -m benchmarks.nexmark.flink q0 --input events --few few --jars jars
{"system": "flink", "setting": "sql", "workload": "q0", "records": 1000000, ...}

The settings are those of nexmark-flink: heap state, objects reused, mini-batches. A cluster of two
slots runs in one JVM; results go to a sink that discards them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment, TableDescriptor

from benchmarks.nexmark.flink_sql import STATEMENTS, tables
from benchmarks.nexmark.processor_time import processor_s

SETTINGS = {
    "parallelism.default": "2",
    "execution.checkpointing.interval": "1 s",
    "state.backend.type": "hashmap",
    "restart-strategy.type": "none",
    "pipeline.object-reuse": "true",
    "taskmanager.memory.network.max": "128 mb",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.local-time-zone": "UTC",
}


def table_environment(directory: Path, jars: Path, checkpoints: Path) -> StreamTableEnvironment:
    configuration = Configuration()
    found = [path.resolve().as_uri() for path in sorted(jars.glob("*.jar"))]
    given = {
        "execution.checkpointing.dir": checkpoints.as_uri(),
        "pipeline.jars": ";".join(found),
    }
    for name, value in {**SETTINGS, **given}.items():
        configuration.set_string(name, value)
    flink = StreamExecutionEnvironment.get_execution_environment(configuration)
    made = StreamTableEnvironment.create(flink)
    for statement in tables(str(directory.resolve())):
        made.execute_sql(statement)
    return made


def seconds_of(query: str, directory: Path, jars: Path) -> tuple[float, float]:
    """Seconds from handing the job over to its end, and those of all processors."""
    nowhere = TableDescriptor.for_connector("blackhole").build()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoints:
        made = table_environment(directory, jars, Path(checkpoints))
        result = made.sql_query(STATEMENTS[query])
        began, used_s = time.perf_counter(), processor_s()
        result.execute_insert(nowhere).wait()
        return time.perf_counter() - began, processor_s() - used_s


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("query", choices=STATEMENTS)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--few", type=Path, required=True, help="a small input, to get warm")
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--events", type=int, default=0, help="how many there are in the input")
    asked = parser.parse_args()
    _, (start_s, start_cpu_s), (seconds, cpu_s) = (
        seconds_of(asked.query, each, asked.jars) for each in (asked.few, asked.few, asked.input)
    )
    line = {
        "system": "flink",
        "setting": "sql",
        "workload": asked.query,
        "records": asked.events,
        "seconds": seconds,
        "start_s": start_s,
        "records_per_s": asked.events / seconds,
        "cpu_s": cpu_s,
        "start_cpu_s": start_cpu_s,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

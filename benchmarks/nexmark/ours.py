"""One query as a Mainstay job on local processes, measured.

>>> python -m benchmarks.nexmark.ours q0 --input events --few few --events 1000000
{"system": "mainstay", "setting": "processes", "workload": "q0", "records": 1000000, ...}
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.flink_sql import DELAY_S
from benchmarks.nexmark.processor_time import processor_s
from benchmarks.nexmark.queries.registry import BUILDERS, build
from benchmarks.nexmark.sources import side, stored
from mainstay.bench.collecting import Counting
from mainstay.bench.running import PROCESSES, environment, start
from mainstay.connectors import Source


def sources_of(query: str, directory: Path) -> dict[str, Source]:
    return {
        name: side() if name == "side" else stored(directory, name, columns)
        for name, columns in QUERIES[query].reads.items()
    }


@dataclass(frozen=True)
class Measured:
    """Seconds from handing a job over to its end, those of all processors, and how many rows it
    gave."""

    seconds: float
    cpu_s: float
    rows: int


def measure(query: str, directory: Path) -> Measured:
    sink = Counting()
    with tempfile.TemporaryDirectory(prefix="mainstay-nexmark-") as snapshots:
        env = environment(snapshots)
        build(env, query, sources_of(query, directory), sink, delay=f"{DELAY_S}s")
        began, used_s = time.perf_counter(), processor_s()
        start(env, query, PROCESSES).wait(progress=False)
        seconds, cpu_s = time.perf_counter() - began, processor_s() - used_s
    return Measured(seconds, cpu_s, sink.rows_until(sink.last_epoch))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("query", choices=BUILDERS)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--few", type=Path, required=True, help="a small input, to get warm")
    parser.add_argument("--events", type=int, default=0, help="how many there are in the input")
    asked = parser.parse_args()
    _, few, whole = (
        measure(asked.query, each.resolve()) for each in (asked.few, asked.few, asked.input)
    )
    line = {
        "system": "mainstay",
        "setting": "processes",
        "workload": asked.query,
        "records": asked.events,
        "seconds": whole.seconds,
        "start_s": few.seconds,
        "records_per_s": asked.events / whole.seconds,
        "cpu_s": whole.cpu_s,
        "start_cpu_s": few.cpu_s,
        "rows": whole.rows,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

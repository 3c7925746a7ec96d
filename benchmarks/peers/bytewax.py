"""Bytewax: W1, W3 and W6 on two workers.

It has no aggregation of its own beyond Python functions, so W2 does not apply. Its sources hand
out tuples and strings that were built before the clock started, which is in its favour. Keys are
strings because Bytewax has no others.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax._bytewax import cluster_main, run_main
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSink, TestingSource

from benchmarks import workloads
from benchmarks.peers import answer

SETTINGS = {
    "W1": ["processes", "threads", "no-recovery"],
    "W3": ["processes"],
    "W6": ["processes", "no-recovery"],
}
PREBUILT = {"W1": 200_000, "W3": 200_000, "W6": 25_000}
BATCH = 1_000
EPOCH = timedelta(seconds=workloads.SNAPSHOT_INTERVAL_S)


def orders(first: int, count: int) -> list[tuple[str, int]]:
    keys, amounts = (column.tolist() for column in workloads.columns(first, count))
    return [(str(key), amount) for key, amount in zip(keys, amounts, strict=True)]


def lines(first: int, count: int) -> list[str]:
    return workloads.lines(first, count).to_pylist()


class Flood(StatefulSourcePartition[Any, int]):
    """As fast as it is asked, the same prebuilt items over and over, until the time is up."""

    def __init__(self, items: list[Any], ends_at: float) -> None:
        self.items, self.ends_at, self.at = items, ends_at, 0

    def next_batch(self) -> Iterable[Any]:
        if time.time() >= self.ends_at:
            raise StopIteration
        batch = self.items[self.at : self.at + BATCH]
        self.at = (self.at + BATCH) % len(self.items)
        return batch

    def snapshot(self) -> int:
        return self.at


class Paced(StatefulSourcePartition[Any, int]):
    """What is due at a steady rate, stamped when it is made."""

    def __init__(self, items: list[Any], rate_per_s: float, ends_at: float) -> None:
        self.items, self.rate_per_s, self.ends_at = items, rate_per_s, ends_at
        self.began, self.made = time.time(), 0

    def next_batch(self) -> Iterable[Any]:
        now = time.time()
        if now >= self.ends_at:
            raise StopIteration
        due = int((now - self.began) * self.rate_per_s)
        numbers, self.made = range(self.made, due), due
        size = len(self.items)
        found = (self.items[number % size] for number in numbers)
        return [(key, (amount, now)) for key, amount in found]

    def snapshot(self) -> int:
        return self.made


class Source(FixedPartitionedSource[Any, int]):
    """One partition a worker, each with records of its own."""

    def __init__(self, asked: answer.Request) -> None:
        self.workload, self.seconds = asked.workload, asked.seconds
        build, size = lines if self.workload == "W6" else orders, PREBUILT[self.workload]
        self.items = {str(n): build(n * size, size) for n in range(workloads.PARALLELISM)}
        self.warm_until = 0.0

    def list_parts(self) -> list[str]:
        return list(self.items)

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Any:
        # The clock starts when the dataflow does, not while its items are built.
        self.warm_until = self.warm_until or time.time() + answer.WARM_UP_S
        items, ends_at = self.items[for_part], self.warm_until + self.seconds
        if self.workload == "W3":
            return Paced(items, workloads.RATE_PER_S / workloads.PARALLELISM, ends_at)
        return Flood(items, ends_at)


class Counted(StatelessSinkPartition[Any]):
    """Counts what arrives, and in W3 how old it is."""

    def __init__(self, is_timed: bool) -> None:
        self.is_timed, self.count = is_timed, 0
        self.samples: list[tuple[float, int]] = []
        self.arrivals: list[tuple[float, float]] = []

    def write_batch(self, items: list[Any]) -> None:
        now = time.time()
        self.count += len(items)
        self.samples.append((now, self.count))
        if self.is_timed:
            self.arrivals += [(now, now - made) for _, (_, made) in items]


class CountingSink(DynamicSink[Any]):
    def __init__(self, is_timed: bool) -> None:
        self.is_timed = is_timed
        self.partitions: list[Counted] = []

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Counted:
        self.partitions.append(Counted(self.is_timed))
        return self.partitions[-1]


def total(state: int | None, amount: int) -> tuple[int, int]:
    now = (state or 0) + amount
    return now, now


def stamped_total(state: int | None, value: tuple[int, float]) -> tuple[int, tuple[int, float]]:
    now = (state or 0) + value[0]
    return now, (now, value[1])


def split(line: str) -> list[tuple[str, int]]:
    return [(word, 1) for word in line.split()]


def flow(workload: str, source: Any, sink: Any) -> Dataflow:
    made = Dataflow(workload)
    stream: Any = op.input("in", made, source)
    if workload == "W6":
        stream = op.flat_map("split", stream, split)
    results = op.stateful_map("total", stream, stamped_total if workload == "W3" else total)
    op.output("out", results, sink)
    return made


def verify(workload: str) -> bool:
    """Whether the same dataflow over the first records ends with the right totals."""
    out: list[tuple[str, Any]] = []
    if workload == "W6":
        count = workloads.VERIFIED_RECORDS // workloads.WORDS_PER_LINE
        items: list[Any] = lines(0, count)
        expected: dict[Any, int] = workloads.word_counts(count)
    else:
        items = orders(0, workloads.VERIFIED_RECORDS)
        expected = {str(key): n for key, n in workloads.sums(workloads.VERIFIED_RECORDS).items()}
    if workload == "W3":
        items = [(key, (amount, 0.0)) for key, amount in items]
    run_main(flow(workload, TestingSource(items, BATCH), TestingSink(out)))
    found = {key: value[0] if workload == "W3" else value for key, value in out}
    return found == expected


def work(asked: answer.Request, process: int, addresses: list[str], db: Path | None) -> None:
    """One process of the dataflow: run it to its end and print what its sinks saw."""
    source, sink = Source(asked), CountingSink(asked.workload == "W3")
    dataflow = flow(asked.workload, source, sink)
    is_threaded = asked.setting == "threads"
    cluster_main(
        dataflow,
        addresses,
        process,
        epoch_interval=EPOCH,
        recovery_config=RecoveryConfig(db) if db else None,
        worker_count_per_proc=workloads.PARALLELISM if is_threaded else 1,
    )
    warm = source.warm_until
    windows = [answer.window(part.samples, warm) for part in sink.partitions]
    ages = [age for part in sink.partitions for at, age in part.arrivals if at >= warm]
    print(
        json.dumps(
            {
                "records": sum(window.records for window in windows),
                "seconds": max(window.seconds for window in windows),
                "began_at": min(window.began_at or warm for window in windows),
                "records_per_s": sum(window.records_per_s for window in windows),
                "ages_s": ages,
            }
        )
    )


def free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{listening.getsockname()[1]}" for listening in sockets]
    for listening in sockets:
        listening.close()
    return addresses


def run(asked: answer.Request, directory: str) -> list[dict[str, Any]]:
    """Run the dataflow in processes of its own and give what each of them counted."""
    is_threaded = asked.setting == "threads"
    addresses = [] if is_threaded else free_addresses(workloads.PARALLELISM)
    command = [sys.executable, "-m", "benchmarks.peers.bytewax", asked.workload]
    command += ["--setting", asked.setting, "--seconds", str(asked.seconds)]
    command += ["--addresses", ",".join(addresses)]
    if asked.setting != "no-recovery":
        init_db_dir(Path(directory), workloads.PARALLELISM)
        command += ["--db", directory]
    workers = [
        subprocess.Popen([*command, "--process", str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(max(1, len(addresses)))
    ]
    outputs = [worker.communicate()[0] for worker in workers]
    failed = [worker.returncode for worker in workers if worker.returncode]
    if failed:
        raise SystemExit(f"Bytewax processes ended with {failed}")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def main() -> None:
    parser = answer.parser(SETTINGS)
    parser.add_argument("--process", type=int)
    parser.add_argument("--addresses", default="")
    parser.add_argument("--db", type=Path)
    arguments = parser.parse_args()
    asked = answer.request(SETTINGS, arguments)
    if arguments.process is not None:
        addresses = [address for address in arguments.addresses.split(",") if address]
        work(asked, arguments.process, addresses, arguments.db)
        return
    verified = verify(asked.workload)
    with tempfile.TemporaryDirectory() as directory:
        found = run(asked, directory)
    ages_ms = [age * 1e3 for part in found for age in part["ages_s"]]
    answer.say(
        "bytewax",
        asked,
        answer.Window(
            sum(p["records"] for p in found),
            max(p["seconds"] for p in found),
            min(p["began_at"] for p in found),
        ),
        records_per_s=sum(p["records_per_s"] for p in found),
        latency_ms=answer.percentiles(ages_ms) if ages_ms else None,
        verified=verified,
        note="prebuilt input; epochs of 1 s",
    )


if __name__ == "__main__":
    main()

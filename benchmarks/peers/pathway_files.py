"""The files that Pathway reads, given to it as fast as it takes them, and what it says of them."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from benchmarks import workloads

AHEAD = 3
"""Files that wait to be read, so that it never waits for one."""
STOCK = 4
SILENT_S = 200.0


@dataclass(frozen=True)
class Files:
    """How large a file of a workload is, which makes a commit of a second or less."""

    records: int


FILES = {"W1": Files(100_000), "W2": Files(500_000), "W6": Files(25_000)}


def write(path: Path, workload: str, first: int, count: int) -> None:
    """A file with ``count`` records (W6: lines) from number ``first`` on."""
    if workload == "W6":
        table: Any = pa.table({"line": workloads.lines(first, count)})
    else:
        table = pa.Table.from_batches([workloads.orders(first, count)])
    if workload == "W3":
        table = table.append_column("made", pa.array([0.0] * count))
    pa.csv.write_csv(table, path)


class Cluster:
    """Processes of one run, and a queue of what they say. At the end they are killed."""

    def __init__(self, command: Sequence[str], processes: int, threads: int) -> None:
        self.said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        together = {
            "PATHWAY_THREADS": str(threads),
            "PATHWAY_PROCESSES": str(processes),
            "PATHWAY_RUN_ID": str(uuid.uuid4()),
            "PATHWAY_FIRST_PORT": str(port),
            "PATHWAY_START_TIMESTAMP_MS": str(int(time.time() * 1000)),
        }
        self.processes = [
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **together, "PATHWAY_PROCESS_ID": str(number)},
            )
            for number in range(processes)
        ]
        self.threads = [
            threading.Thread(target=self._listen, args=(process,), daemon=True)
            for process in self.processes
        ]

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                self.said.put(json.loads(line))
        self.said.put(None)

    def __enter__(self) -> Cluster:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def events(self) -> Iterator[dict[str, Any]]:
        while True:
            try:
                event = self.said.get(timeout=SILENT_S)
            except queue.Empty as error:
                raise SystemExit(f"Pathway finished no commit within {SILENT_S:g} s") from error
            if event is None:
                codes = [process.poll() for process in self.processes]
                raise SystemExit(f"a process of Pathway ended by itself; exit codes: {codes}")
            yield event


def progress(cluster: Cluster, workload: str, directory: Path) -> Iterator[tuple[float, int]]:
    """(time, records of finished commits), while new files are put in front of the cluster."""
    feed = _Feed(workload, directory)
    feed.up_to(AHEAD)
    read: dict[int, int] = {}
    most = 0
    for event in cluster.events():
        if "count" in event:
            read[event["time"]] = event["count"]
            continue
        finished = max((n for at, n in read.items() if at <= event["time"]), default=0)
        if finished > most:
            most = finished
            yield event["at"], most
            feed.up_to(AHEAD + most // FILES[workload].records)


class _Feed:
    """Copies files from a stock into the directory that is read, each under a name of its own."""

    def __init__(self, workload: str, directory: Path) -> None:
        self.size = FILES[workload].records
        self.inbox, self.stock = directory / "in", directory / "stock"
        self.next = 0
        self.stock.mkdir()
        for number in range(STOCK):
            write(self.stock / str(number), workload, number * self.size, self.size)

    def up_to(self, count: int) -> None:
        while self.next < count:
            draft = self.stock / "draft"
            shutil.copyfile(self.stock / str(self.next % STOCK), draft)
            draft.rename(self.inbox / f"{self.next:06}.csv")
            self.next += 1

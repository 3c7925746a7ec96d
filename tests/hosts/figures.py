"""How long a loss keeps a job: ``python -m tests.hosts.figures [ROUNDS [WORDS]]`` prints a table.

With words, of the losses whose names have them.

Seconds from the loss to the first output after it, on a cluster of two hosts with Spark's own
settings, and a snapshot every 0.2 s: medians, and in brackets all runs. Where a loss is measured
both with Spark being told of lost hosts and without, the two take turns.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.hosts.driving import RemoteDriver, RunningLedger, begun
from tests.services.connect_hosts import ConnectHosts
from tests.services.spark_hosts import SparkHosts

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
Loss = Callable[[RemoteDriver, RunningLedger], None]


def kill_a_worker(driver: RemoteDriver, job: RunningLedger) -> None:
    before = job.attempt()
    _, pid = job.look()["workers"][0]
    os.kill(pid, signal.SIGKILL)
    job.await_epoch(after=before)


def kill_an_executor(driver: RemoteDriver, job: RunningLedger) -> None:
    before = job.attempt()
    for pid in driver.cluster.hosts.pids("w2"):
        if EXECUTOR in psutil.Process(pid).cmdline():
            os.kill(pid, signal.SIGKILL)
    job.await_epoch(after=before)


def reboot_a_host(driver: RemoteDriver, job: RunningLedger) -> None:
    before = job.attempt()
    driver.cluster.reboot("w2")
    job.await_epoch(after=before)


def cut_a_host(driver: RemoteDriver, job: RunningLedger) -> None:
    before = job.attempt()
    driver.cluster.hosts.cut("w2")
    job.await_epoch(after=before)


def cut_the_driver(seconds: float) -> Loss:
    def cut(driver: RemoteDriver, job: RunningLedger) -> None:
        driver.cluster.hosts.cut("d")
        time.sleep(seconds)
        driver.cluster.hosts.mend("d")
        job.await_output_after(time.time())

    return cut


@dataclass(frozen=True, slots=True)
class Row:
    """A loss, and whether Spark is told of lost hosts: in one way, or in both in turn."""

    name: str
    lose: Loss
    ways: tuple[bool, ...] = (True,)


CLASSIC = (
    Row("a worker is killed", kill_a_worker),
    Row("an executor is killed", kill_an_executor),
    Row("a host is rebooted", reboot_a_host),
    Row("a host is cut off", cut_a_host, (False, True)),
    Row("the driver is cut off for 5 s", cut_the_driver(5.0)),
    Row("the driver is cut off for 20 s", cut_the_driver(20.0)),
)
# A Connect server cannot be told.
CONNECT = (
    Row("Connect: a worker is killed", kill_a_worker, (False,)),
    Row("Connect: a host is cut off", cut_a_host, (False,)),
)


def measure(driver: RemoteDriver, folder: Path, lose: Loss, *, leaves: bool) -> float:
    driver.await_all_slots()
    job = begun(driver, folder, leaves=leaves)
    lost_at = time.time()
    lose(driver, job)
    taken = job.first_record_after(lost_at)
    for name in driver.cluster.hosts.names:
        driver.cluster.hosts.mend(name)
    job.finish()
    return taken


def measure_row(driver: RemoteDriver, folder: Path, row: Row, rounds: int) -> str:
    taken: dict[bool, list[float]] = {leaves: [] for leaves in row.ways}
    for number in range(rounds):
        for leaves in row.ways:
            place = folder / f"{row.name}-{leaves}-{number}"
            place.mkdir()
            taken[leaves].append(measure(driver, place, row.lose, leaves=leaves))
            shown = f"{row.name}, {'' if leaves else 'not '}told: {taken[leaves][-1]:.1f} s"
            print(f"{shown}; load {os.getloadavg()[0]:.0f}", file=sys.stderr, flush=True)
    return f"| {row.name} | {_cell(taken.get(False))} | {_cell(taken.get(True))} |"


def _cell(taken: list[float] | None) -> str:
    if not taken:
        return ""
    runs = ", ".join(f"{each:.1f}" for each in taken)
    return f"{statistics.median(taken):.1f} ({runs})"


def main(rounds: int, words: str = "") -> None:
    print("| what is lost | Spark is not told | Spark is told |\n|---|---:|---:|", flush=True)
    for kind, rows in ((SparkHosts, CLASSIC), (ConnectHosts, CONNECT)):
        if not (asked := [row for row in rows if words in row.name]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            with kind(Path(folder)) as cluster:
                driver = RemoteDriver(cluster)
                for row in asked:
                    print(measure_row(driver, Path(folder), row, rounds), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, " ".join(sys.argv[2:]))

"""How long a loss keeps a job: ``python -m tests.hosts.figures [ROUNDS [WORDS]]`` prints a table.

With words, of the losses whose names have them.

Seconds from the loss to the first output after it, on a cluster of two hosts with Spark's own
settings, and a snapshot every 0.2 s. *Before*: Spark is not told of hosts that are lost.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.hosts.driving import RemoteDriver, RunningLedger, begun
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


LOSSES: dict[str, tuple[Loss, tuple[bool, ...]]] = {
    "a worker is killed": (kill_a_worker, (True,)),
    "an executor is killed": (kill_an_executor, (True,)),
    "a host is rebooted": (reboot_a_host, (True,)),
    "a host is cut off": (cut_a_host, (False, True)),
    "the driver is cut off for 5 s": (cut_the_driver(5.0), (True,)),
    "the driver is cut off for 20 s": (cut_the_driver(20.0), (True,)),
}


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


def main(rounds: int, words: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with SparkHosts(Path(folder)) as cluster:
            driver = RemoteDriver(cluster)
            for name, (lose, ways) in LOSSES.items():
                for leaves in ways if words in name else ():
                    taken = []
                    for number in range(rounds):
                        place = Path(folder, f"{name}-{leaves}-{number}")
                        place.mkdir()
                        taken.append(measure(driver, place, lose, leaves=leaves))
                    shown = ", ".join(f"{each:.1f}" for each in taken)
                    when = "after" if leaves else "before"
                    middle = statistics.median(taken)
                    print(f"| {name} | {when} | {middle:.1f} | {shown} |", flush=True)
                    print(f"load: {os.getloadavg()[0]:.0f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, " ".join(sys.argv[2:]))

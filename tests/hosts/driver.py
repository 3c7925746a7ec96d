"""A driver on a host of its own: ``python -m tests.hosts.driver MASTER ADDRESS``.

It does what it is told on its standard input, a line of JSON for each thing, and answers with a
line: the test that tells it is outside of the hosts' network.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession

import tests.drive.ledger as ledger_module
from mainstay.drive.remote_job import Patience, RemoteJob
from mainstay.runtime.options import LocalRecoveryOptions
from mainstay.spark.launch.cluster import cluster_of
from mainstay.spark.launch.launcher import SparkLauncher
from mainstay.spark.launch.reservations import reserve
from mainstay.spark.launch.session import DAEMON, STEADY
from tests.drive.ledger import LedgerJob, await_until


class Driver:
    """One session, and the ledgers that run on it one after the other."""

    def __init__(self, master: str, address: str) -> None:
        self._session = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", address)
            .config("spark.driver.bindAddress", address)
            .config("spark.executor.memory", "512m")
            .config(map={**STEADY, **DAEMON})
            .getOrCreate()
        )
        self._session.sparkContext.setLogLevel("OFF")
        self._cluster = cluster_of(self._session)
        self._job: RemoteJob

    def slots(self) -> list[int]:
        return list(self._cluster.slots())

    def await_slots(self, number: int, timeout_s: float = 90.0) -> None:
        await_until(lambda: self.slots()[0] == number, f"there are {number} slots", timeout_s)

    def start(
        self,
        folder: str,
        patience: dict[str, float],
        least: int | None,
        leaves: bool,
        keeps: bool,
        **settings: Any,
    ) -> None:
        """``leaves``: whether Spark is told of hosts that are lost. ``keeps``: whether hosts keep
        copies of state files."""
        ledger = LedgerJob(Path(folder), **settings)
        reservation = reserve(self._cluster.application, ledger.spec.workers)
        launcher = SparkLauncher(self._cluster, "ledger", reservation)
        if not leaves:
            launcher.leave = lambda hosts: None  # type: ignore[method-assign]
        local = LocalRecoveryOptions(is_on=keeps)
        options: dict[str, Any] = {"min_parallelism": least, "local": local}
        self._job = ledger.start(launcher, Patience(**patience), **options)

    def look(self) -> dict[str, Any]:
        job = self._job
        return {
            "status": job.status,
            "attempts": [(each.attempt, each.reason) for each in job.attempts()],
            "epochs": [each.attempt for each in job.snapshots() if each.status == "complete"],
            "workers": sorted(job.workers().values()),
            "parallelism": [job.parallelism, job.asked_parallelism],
            "problems": [str(problem) for problem in job.problems()],
            "recoveries": [(each.local_bytes, each.stored_bytes) for each in job.recoveries()],
            "moved": self._moved(),
        }

    def _moved(self) -> int:
        """How many workers are not the number that Spark has given their process."""
        gathering = self._job._gathering
        numbers = {} if gathering is None else gathering.processes
        return sum(worker != process for worker, process in numbers.items())

    def wait(self, timeout_s: float = 120.0) -> str:
        return str(self._job.wait(timeout_s, progress=False))

    def cancel(self) -> None:
        self._job.cancel()


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    cloudpickle.register_pickle_by_value(ledger_module)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    driver = Driver(*sys.argv[1:])
    # What anything here prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        what, arguments = json.loads(line)
        try:
            answer = {"answer": getattr(driver, what)(**arguments)}
        except Exception as error:
            logging.exception("%s", what)
            answer = {"error": repr(error)}
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()

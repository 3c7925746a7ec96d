"""A driver on a host of its own: ``python -m tests.hosts.driver MASTER ADDRESS``.

With the address of a Connect server for a master it is a client of that.

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

import mainstay as ms
import tests.drive.ledger as ledger_module
from examples import order_totals
from mainstay.drive.remote_job import Patience, RemoteJob
from mainstay.errors import MainstayError
from mainstay.runtime.options import LocalRecoveryOptions
from mainstay.spark.launch.cluster import cluster_of
from mainstay.spark.launch.connect_session import connect_session
from mainstay.spark.launch.launcher import SparkLauncher
from mainstay.spark.launch.masters import is_connect_address
from mainstay.spark.launch.reservations import reserve
from mainstay.spark.launch.scouts import send_scouts
from mainstay.spark.launch.session import DAEMON, STEADY
from tests.drive.ledger import LedgerJob, await_until


class Driver:
    """One session, and the ledgers that run on it one after the other."""

    def __init__(self, master: str, address: str) -> None:
        is_connect = is_connect_address(master)
        self._session = connect_session(master) if is_connect else _classic(master, address)
        self._cluster = cluster_of(self._session)
        self._job: RemoteJob | None = None

    def await_slots(self, number: int, timeout_s: float = 150.0) -> None:
        await_until(lambda: self._has(number), f"there are {number} slots", timeout_s)

    def _has(self, number: int) -> bool:
        slots = self._cluster.slots()
        if slots is not None:
            return slots.total == number
        try:
            send_scouts(self._cluster, number, "the test's")
        except MainstayError as error:
            logging.info("%s", error)
            return False
        return True

    def first_job(self, folder: str, coordinator_host: str | None) -> list[Any]:
        """What the README's job comes to, or in its place the error of its start; and where its
        coordinator was."""
        env = ms.Environment(
            spark=self._session,
            parallelism=2,
            snapshots=ms.Snapshots(folder),
            coordinator_host=coordinator_host,
        )
        orders = ms.connectors.Rows(
            "customer string, amount long", [("alice", 5), ("bob", 3), ("alice", 2)]
        )
        out = ms.connectors.Memory()
        order_totals.build(env, orders, out)
        try:
            job = env.start("order-totals")
        except MainstayError as error:
            return [type(error).__name__, str(error)]
        job.wait(120.0, progress=False)
        return [sorted(out.rows()), job._hub.address]

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
        if self._job is not None:
            self._job.cancel()


def _classic(master: str, address: str) -> SparkSession:
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", address)
        .config("spark.driver.bindAddress", address)
        .config("spark.executor.memory", "512m")
        .config(map={**STEADY, **DAEMON})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    for module in (ledger_module, order_totals):
        cloudpickle.register_pickle_by_value(module)
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

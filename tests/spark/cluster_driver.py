"""A driver on a cluster: ``python -m tests.spark.cluster_driver MASTER FOLDER COUNT RATE``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import cloudpickle
from pyspark.sql import SparkSession

import tests.drive.ledger as ledger_module
from mainstay.spark.launch.classic_cluster import ClassicCluster
from mainstay.spark.launch.launcher import SparkLauncher
from mainstay.spark.launch.session import DAEMON
from tests.drive.ledger import LedgerJob, await_until


def main() -> None:
    master, folder, count, rate = sys.argv[1:]
    cloudpickle.register_pickle_by_value(ledger_module)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.python.task.killTimeout", "200ms")
        .config(map={**DAEMON})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    ledger = LedgerJob(Path(folder), count=int(count), per_second=float(rate))
    cluster = ClassicCluster(session)
    await_until(lambda: cluster.slots().free == 4, "both executors have come")
    cluster.check(ledger.spec.workers)
    job = ledger.start(SparkLauncher(cluster, "ledger"))
    print(job.wait(), len(job.attempts()), flush=True)
    session.stop()


if __name__ == "__main__":
    main()

"""A standalone Spark cluster over several hosts with a Connect server, beside the master.

::

    with ConnectHosts(folder) as cluster:
        cluster.entry                # "sc://10.77.0.11:15002"
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.services.spark_hosts import MASTER, SparkHosts

CONNECT_PORT = 15002
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.dynamicAllocation.enabled": "false",
    "spark.python.task.killTimeout": "200ms",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    # Those above are what docs/spark.md has; these make it a small one.
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
}


class ConnectHosts(SparkHosts):
    """The server's process is one of the master's host."""

    @property
    def entry(self) -> str:
        return f"sc://{self.hosts.address(MASTER)}:{CONNECT_PORT}"

    def __enter__(self) -> ConnectHosts:
        super().__enter__()
        try:
            self._start_server()
        except BaseException:
            self.close()
            raise
        return self

    def _start_server(self) -> None:
        address = self.hosts.address(MASTER)
        settings = SETTINGS | {
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            "spark.connect.grpc.binding.address": address,
            "spark.connect.grpc.binding.port": str(CONNECT_PORT),
        }
        options = [word for each in settings.items() for word in ("--conf", "=".join(each))]
        self._start(
            MASTER,
            "SparkSubmit",
            *("--class", CLASS, "--master", self.master, *options, "spark-internal"),
            log=self.server_log,
            # It counts as a daemon, and Spark asks this before spark.driver.memory.
            SPARK_DAEMON_MEMORY="512m",
            # For Connect, spark.pyspark.python does not count.
            PYSPARK_PYTHON=sys.executable,
        )
        self._await(self.server_log, "Spark Connect server started")

    @property
    def server_log(self) -> Path:
        return self.folder / "connect.log"

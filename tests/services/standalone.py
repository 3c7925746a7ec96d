"""A standalone cluster of Spark on loopback: a master, and two workers.

::

    with StandaloneCluster(folder) as cluster:
        cluster.master                    # "spark://127.0.0.1:41000"
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import psutil

PATIENCE_S = 60.0


class StandaloneCluster:
    """Its processes are children of this one until it is closed."""

    def __init__(self, folder: Path, *, cores: int = 2, memory: str = "1g") -> None:
        """``cores`` and ``memory`` are those of each worker."""
        import pyspark

        self._home = Path(pyspark.__file__).parent
        self._folder = folder
        self._limits = ["--cores", str(cores), "--memory", memory]
        self._closing = ExitStack()
        self._port = _free_port()
        self.master = f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> StandaloneCluster:
        address = ["--host", "127.0.0.1", "--port"]
        self._start("master.Master", *address, str(self._port), "--webui-port", "0")
        self._await_master()
        for number in range(2):
            folder = self._folder / f"worker-{number}"
            limits = [*self._limits, "--work-dir", str(folder)]
            place = [*address, "0", "--webui-port", "0"]
            self._start("worker.Worker", *limits, *place, self.master)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._closing.close()

    def _start(self, name: str, *arguments: str) -> None:
        settings = {
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        }
        environment = {**os.environ, **settings, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [f"{self._home}/bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments]
        with (self._folder / "cluster.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._closing.callback(_end_with_children, process)

    def _await_master(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while not _is_listening(self._port):
            assert time.monotonic() < until, "the master does not listen"
            time.sleep(0.01)  # nobody tells when a port is opened


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end_with_children(process: subprocess.Popen[bytes]) -> None:
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        if member.is_running():
            member.kill()
    psutil.wait_procs(family, timeout=10)
    process.wait(10)

"""A standalone Spark cluster over several hosts: a master, workers of two slots each, a driver.

::

    with SparkHosts(folder, workers=2) as cluster:
        cluster.master               # "spark://10.77.0.11:7077"
        cluster.hosts.cut("w2")
        cluster.reboot("w1")         # and its worker comes up again
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.services.hosts import Hosts

MASTER, DRIVER = "m", "d"
PORT = 7077
SLOTS_EACH = 2
PATIENCE_S = 600.0
"""How long a process of Spark's may take to start on a machine that has other work."""


class SparkHosts:
    """A cluster until it is closed; what its processes say is in ``folder``."""

    def __init__(self, folder: Path, workers: int = 2, master_options: str = "") -> None:
        self.folder = folder
        self.workers = tuple(f"w{number}" for number in range(1, workers + 1))
        self.hosts = Hosts(MASTER, *self.workers, DRIVER)
        self._master_options = master_options
        self._processes: list[subprocess.Popen[Any]] = []
        self._registered = 0

    @property
    def master(self) -> str:
        return f"spark://{self.hosts.address(MASTER)}:{PORT}"

    @property
    def entry(self) -> str:
        """What programs name as their master."""
        return self.master

    def __enter__(self) -> SparkHosts:
        self.hosts.__enter__()
        try:
            place = ["--host", self.hosts.address(MASTER), "--port", str(PORT)]
            self._start(MASTER, "master.Master", *place, "--webui-port", "0")
            self._await(self.log(MASTER), "New state: ALIVE")
            for name in self.workers:
                self._start_worker(name)
            for name in self.workers:
                self._await(self.log(name), "Successfully registered with master")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.hosts.close()
        for process in self._processes:
            process.wait()

    def reboot(self, name: str) -> None:
        """Kill all that runs on a worker's host, and start its Spark worker again."""
        self.hosts.reboot(name)
        self.log(name).unlink()
        self._start_worker(name)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def environment(self, name: str) -> dict[str, str]:
        """That of a process of Spark's on a host."""
        import pyspark

        return {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": self.hosts.address(name),
            # Hosts share their disk: what each keeps for itself is in a folder of its own.
            "TMPDIR": str(self._local(name)),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:TieredStopAtLevel=1 {self._master_options}".strip(),
        }

    def _local(self, name: str) -> Path:
        folder = self.folder / f"{name}-tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def _start_worker(self, name: str) -> None:
        limits = ["--cores", str(SLOTS_EACH), "--memory", "1g"]
        place = ["--host", self.hosts.address(name), "--webui-port", "0"]
        folder = ["--work-dir", str(self.folder / name)]
        self._start(name, "worker.Worker", *limits, *place, *folder, self.master)

    def _start(
        self, name: str, main: str, *arguments: str, log: Path | None = None, **variables: str
    ) -> None:
        environment = self.environment(name) | variables
        command = [
            f"{environment['SPARK_HOME']}/bin/spark-class",
            f"org.apache.spark.deploy.{main}",
        ]
        with (log or self.log(name)).open("ab") as out:
            process = self.hosts.start(
                name, [*command, *arguments], env=environment, stdout=out, stderr=out
            )
        self._processes.append(process)

    def _await(self, log: Path, text: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while text not in (said := log.read_text(errors="replace")):
            assert self._processes[-1].poll() is None, f"{log.stem} has ended: {said[-2000:]}"
            assert time.monotonic() < until, f"{log.stem} does not say {text!r}: {said[-2000:]}"
            time.sleep(0.05)

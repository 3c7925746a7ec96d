"""A Spark Connect server on loopback, as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.drive.ledger import await_until

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SLOTS = 5
START_S = 600.0
"""On a machine that has other work."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Its address. It knows nothing of this package but what clients send."""
    home, port = Path(pyspark.__file__).parent, free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.python.task.killTimeout": "200ms",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [f"{home}/bin/spark-submit", "--class", CLASS, "--master", f"local[{SLOTS}]"]
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *options, "spark-internal"],
            cwd=folder,
            env={**environment, **own},
            stdout=log,
            stderr=log,
        )
        try:
            await_until(lambda: is_listening(port), "the Connect server listens", START_S)
            yield f"sc://127.0.0.1:{port}"
        finally:
            end_with_children(process)


def end_with_children(process: subprocess.Popen[bytes]) -> None:
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        if member.is_running():
            member.kill()
    psutil.wait_procs(family, timeout=10)
    process.wait(10)

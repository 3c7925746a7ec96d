"""The Spark launcher: an attempt is one Spark job in barrier mode, started from a thread.

Spark places, starts, supervises and kills the workers. The job has one result stage, so Spark
does not retry it: what comes after a failure is the coordinator's to decide.
"""

from __future__ import annotations

import io
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark import BarrierTaskContext

import mainstay
from mainstay.drive.remote_worker import Bootstrap, RemoteWorker

CLOSE_S = 30.0


class SparkLauncher:
    """Starts attempts on one Spark session."""

    def __init__(self, session: Any, name: str) -> None:
        self._session = session
        self._name = name
        self._threads: list[threading.Thread] = []
        self._is_local = session.sparkContext.master.startswith("local")
        conf = session.sparkContext.getConf()
        self.host = "127.0.0.1" if self._is_local else conf.get("spark.driver.host")
        if not self._is_local:
            session.sparkContext.addPyFile(_package(session))

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        before = list(self._threads)
        # On this machine workers can import what the program can.
        path = [entry for entry in sys.path if entry] if self._is_local else []
        main = _main(cloudpickle.dumps(bootstrap), "127.0.0.1" if self._is_local else None, path)

        def run() -> None:
            # The slots of the last attempt are free only when its job has ended.
            for thread in before:
                thread.join()
            context = self._session.sparkContext
            context.setJobGroup(self._group(bootstrap.attempt), f"mainstay: {self._name}", True)
            try:
                rows = self._session.range(0, workers, 1, workers)
                rows.mapInArrow(main, "nothing int", barrier=True).collect()
                ended("its Spark job has ended")
            except Exception as error:
                ended(f"its Spark job has failed: {_first_line(error)}")

        thread = threading.Thread(target=run, name=f"mainstay-spark-{bootstrap.attempt}")
        thread.daemon = True
        self._threads = [*(t for t in before if t.is_alive()), thread]
        thread.start()

    def _group(self, attempt: int) -> str:
        return f"mainstay-{self._name}-{attempt}-{id(self)}"

    def stop(self, attempt: int) -> None:
        self._session.sparkContext.cancelJobGroup(self._group(attempt))

    def close(self) -> None:
        for thread in self._threads:
            thread.join(CLOSE_S)


def _main(
    bootstrap: bytes, host: str | None, path: list[str]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What every barrier task runs."""

    def main(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            continue
        sys.path.extend(entry for entry in path if entry not in sys.path)
        context = BarrierTaskContext.get()
        number = context.partitionId()
        own = host or context.getTaskInfos()[number].address.rsplit(":", 1)[0]
        RemoteWorker(cloudpickle.loads(bootstrap), number, own).run()
        return iter(())

    return main


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _package(session: Any) -> str:
    """This package as a zip that executors can import; its dependencies must be installed there."""
    root = Path(mainstay.__file__).parent
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("mainstay") / path.relative_to(root))
    directory = Path(session.sparkContext._temp_dir)
    target = directory / "mainstay.zip"
    target.write_bytes(data.getvalue())
    return str(target)

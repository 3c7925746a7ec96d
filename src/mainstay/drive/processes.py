"""The process launcher: workers as plain processes of this machine, without Spark.

For tests of everything between the core and Spark, and to measure it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import cloudpickle

from mainstay.drive.remote_worker import Bootstrap

_PROGRAM = """
import sys, cloudpickle
sys.path[:0] = {path!r}
from mainstay.drive.remote_worker import RemoteWorker
bootstrap, number = cloudpickle.loads(sys.stdin.buffer.read())
RemoteWorker(bootstrap, number, "127.0.0.1").run()
"""


class ProcessLauncher:
    """Starts each worker with ``python -c``; the bootstrap goes through its standard input."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self.processes: dict[int, list[subprocess.Popen[bytes]]] = {}

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        started = [self._start_one(bootstrap, number) for number in range(workers)]
        self.processes[bootstrap.attempt] = started
        threading.Thread(target=self._watch, args=(started, ended), daemon=True).start()

    def _start_one(self, bootstrap: Bootstrap, number: int) -> subprocess.Popen[bytes]:
        program = _PROGRAM.format(path=[p for p in sys.path if p])
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(cloudpickle.dumps((bootstrap, number)))
        process.stdin.close()
        return process

    def _watch(
        self, processes: list[subprocess.Popen[bytes]], ended: Callable[[str], None]
    ) -> None:
        threads = [
            threading.Thread(target=self._watch_one, args=(number, process, ended), daemon=True)
            for number, process in enumerate(processes)
        ]
        for thread in threads:
            thread.start()

    def _watch_one(
        self, number: int, process: subprocess.Popen[bytes], ended: Callable[[str], None]
    ) -> None:
        code = process.wait()
        if code != 0:
            ended(f"process {process.pid} of worker {number} ended with code {code}")

    def stop(self, attempt: int) -> None:
        for process in self.processes.get(attempt, []):
            process.kill()

    def close(self) -> None:
        for processes in self.processes.values():
            for process in processes:
                process.wait()

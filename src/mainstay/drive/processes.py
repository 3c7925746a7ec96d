"""The process launcher: workers as plain processes of this machine, without Spark.

For `mainstay run --master processes`, for tests of everything between the core and Spark, and to
measure it.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import cloudpickle

from mainstay.drive.remote_job import RemoteJob
from mainstay.drive.remote_worker import Bootstrap
from mainstay.drive.scaling import Scaling
from mainstay.ha.election import Election
from mainstay.runtime.coordinator.silence import LostHost
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec

CLOSE_S = 20.0

# A thread that hangs must not keep the process of a failed worker: it ends without waiting.
_PROGRAM = """
import os, sys, traceback, cloudpickle
sys.path[:0] = {path!r}
from mainstay.drive.remote_worker import RemoteWorker
bootstrap, number = cloudpickle.loads(sys.stdin.buffer.read())
worker = RemoteWorker(bootstrap, number, "127.0.0.1")
try:
    worker.run()
except BaseException:
    if not worker.has_reported:
        traceback.print_exc()
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(1)
"""


def _how(code: int) -> str:
    """How a process ended; below zero the code is the signal that killed it."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class ProcessLauncher:
    """Starts each worker with ``python -c``; the bootstrap goes through its standard input."""

    host = "127.0.0.1"
    shares_terminal = True
    counts_room = False

    def __init__(self) -> None:
        self.processes: dict[int, list[subprocess.Popen[bytes]]] = {}
        self._watchers: list[threading.Thread] = []

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        started = self.processes.setdefault(bootstrap.attempt, [])
        for number in range(workers):
            process = self._spawn()
            started.append(process)
            self._watch(process, ended)
            self._brief(process, bootstrap, number)

    def _spawn(self) -> subprocess.Popen[bytes]:
        program = _PROGRAM.format(path=[p for p in sys.path if p])
        return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)

    def _brief(self, process: subprocess.Popen[bytes], bootstrap: Bootstrap, number: int) -> None:
        assert process.stdin is not None
        # One that is dead already is reported by its watcher.
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(cloudpickle.dumps((bootstrap, number)))

    def _watch(self, process: subprocess.Popen[bytes], ended: Callable[[str], None]) -> None:
        def watch() -> None:
            code = process.wait()
            ended(f"process {process.pid} of a worker {_how(code)}")

        watcher = threading.Thread(target=watch, name=f"mainstay-watch-{process.pid}", daemon=True)
        self._watchers.append(watcher)
        watcher.start()

    def stop(self, attempt: int) -> None:
        for process in self.processes.get(attempt, []):
            process.kill()

    def leave(self, hosts: Sequence[LostHost]) -> None:
        """There is one host."""

    def room(self) -> int:
        raise NotImplementedError("processes of this machine need no room")

    def gone(self) -> Exception | None:
        return None

    def close(self) -> None:
        for process in [p for processes in self.processes.values() for p in processes]:
            try:
                process.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        for watcher in self._watchers:
            watcher.join()


def start_in_processes(
    name: str,
    spec: JobSpec,
    *,
    directory: str,
    snapshots: SnapshotOptions,
    restart: RestartOptions,
    restore: RestoreOptions,
    scaling: Scaling | None = None,
    election: Election | None = None,
) -> RemoteJob:
    """Start a job whose workers are plain processes of this machine."""
    options = JobOptions(name, name, snapshots, restart, restore)
    return RemoteJob(
        name, spec, options, directory, ProcessLauncher(), scaling=scaling, election=election
    )

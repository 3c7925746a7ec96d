"""A ledger on hosts without Spark: ``python -m tests.hosts.plain_driver FOLDER HOST NS=HOST...``

The driver is reached under the name or address HOST, and a worker is started in each of the
namespaces, which is reached under its own. It prints what the job has come to. Where
``tests.hosts.plain_wire`` is imported before, nobody has keys.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mainstay.drive import processes
from mainstay.drive.processes import ProcessLauncher
from tests.drive.ledger import LedgerJob


class HostLauncher(ProcessLauncher):
    """Starts each worker on a host of its own."""

    def __init__(self, host: str, workers: list[tuple[str, str]]) -> None:
        super().__init__()
        self.host = host
        self._workers = workers
        self._started = 0

    def _spawn(self) -> subprocess.Popen[bytes]:
        namespace, host = self._workers[self._started % len(self._workers)]
        self._started += 1
        program = processes._PROGRAM.format(path=[p for p in sys.path if p])
        program = program.replace('"127.0.0.1"', repr(host))
        if (plain := sys.modules.get("tests.hosts.plain_wire")) is not None:
            program = plain.CHANGE + program
        command = ["ip", "netns", "exec", namespace, sys.executable, "-c", program]
        return subprocess.Popen(command, stdin=subprocess.PIPE)


def main(folder: str, host: str, *workers: str) -> None:
    places = [(namespace, at) for namespace, _, at in (each.partition("=") for each in workers)]
    ledger = LedgerJob(Path(folder), count=4_000, per_second=4_000.0, workers=len(places))
    job = ledger.start(HostLauncher(host, places))
    print(job.wait(300.0), len(job.attempts()), job._hub.address, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

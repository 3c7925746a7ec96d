"""A process that is a worker twice, and then looks at what is left of it.

``python -m tests.drive.within FOLDER``: in a process of its own, because a worker that finds
itself alone ends its process.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from mainstay.drive.remote_worker import Bootstrap, RemoteWorker
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_until


class Within:
    """Runs workers on threads of this process, which goes on after them, as one of Spark may."""

    host = "127.0.0.1"
    shares_terminal = False
    counts_room = False

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        for number in range(workers):
            worker = RemoteWorker(bootstrap, number, self.host)
            thread = threading.Thread(target=worker.run, name=f"worker-{number}")
            self.threads.append(thread)
            thread.start()

    def stop(self, attempt: int) -> None:
        return

    def close(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE_S)


def traces() -> tuple[Any, ...]:
    """What a worker changes in its process."""
    process = psutil.Process()
    return (
        gc.get_threshold(),
        gc.get_freeze_count(),
        sys.getswitchinterval(),
        threading.active_count(),
        process.num_fds(),
        sys.stdout,
        sys.stderr,
    )


def main(folder: Path) -> None:
    # The first run starts what libraries keep for the rest of the process's life.
    for number in range(2):
        (folder / str(number)).mkdir()
        before = traces()
        ledger = LedgerJob(folder / str(number), count=2_000, workers=1)
        assert ledger.start(Within()).wait(PATIENCE_S) == "finished"
        ledger.check()
    await_until(lambda: traces() == before, f"the process is as before: {before}", 5.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

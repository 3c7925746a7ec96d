"""A driver in a process of its own: ``python -m tests.drive.driver FOLDER COUNT RATE RESTORE``."""

from __future__ import annotations

import sys
from pathlib import Path

from mainstay.drive.remote_job import Patience
from tests.drive.ledger import LedgerJob


def main() -> None:
    folder, count, rate, restore = sys.argv[1:]
    job = LedgerJob(Path(folder), count=int(count), per_second=float(rate))
    running = job.start(patience=Patience(lease_s=2.0, silence_s=5.0), restore=restore)
    print(running.wait(), len(running.attempts()), flush=True)


if __name__ == "__main__":
    main()

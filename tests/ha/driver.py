"""One of several drivers of a job, in a process of its own: it prints its status when that changes.

``python -m tests.ha.driver FOLDER COUNT RATE STORE LEASE WALL_SHIFT``: the store is ``files``, or
the hosts of ZooKeeper; the wall clock of the process is ahead by so many seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from mainstay.api.availability import HighAvailability, ZooKeeper
from mainstay.drive.electing import election_of
from mainstay.drive.remote_job import Patience
from tests.drive.ledger import LedgerJob


def main() -> None:
    folder, count, rate, store, lease, shift = sys.argv[1:]
    right, ahead_s, lease_s = time.time, float(shift), float(lease)
    time.time = lambda: right() + ahead_s
    ledger = LedgerJob(Path(folder), count=int(count), per_second=float(rate), workers=2)
    place = None if store == "files" else ZooKeeper(store, session=lease_s)
    ha = HighAvailability(place) if place else HighAvailability(lease=lease_s)
    job = ledger.start(
        patience=Patience(lease_s=2.0, silence_s=5.0),
        election=election_of(ha, "ledger", ledger.directory),
        restore="latest-or-new",
        log_slots=1_000_000,
    )
    told = ""
    while not job.is_over:
        job.wait(0.05, progress=False)
        if job.status != told:
            told = job.status
            print(told, flush=True)
    print(job.wait(), flush=True)


if __name__ == "__main__":
    main()

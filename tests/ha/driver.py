"""One of several drivers of a job, in a process of its own: it prints its status when that changes.

``python -m tests.ha.driver FOLDER COUNT RATE STORE LEASE WALL_SHIFT DEATHS``: the store is
``files``, or the hosts of ZooKeeper; the wall clock of the process is ahead by so many seconds; so
many commits kill their driver. At the end it tells its recoveries, in lines that begin with ``#``.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from mainstay.api.availability import HighAvailability, ZooKeeper
from mainstay.drive.electing import election_of
from mainstay.drive.remote_job import Patience, RemoteJob
from tests.drive.ledger import LedgerJob


def main() -> None:
    folder, count, rate, store, lease, shift, deaths = sys.argv[1:]
    right, ahead_s, lease_s = time.time, float(shift), float(lease)
    time.time = lambda: right() + ahead_s
    ledger = LedgerJob(
        Path(folder), count=int(count), per_second=float(rate), workers=2, deaths=int(deaths)
    )
    # A test that was given up leaves nodes behind, for the length of a session.
    path = f"/{Path(folder).name}"
    place = None if store == "files" else ZooKeeper(store, path=path, session=lease_s)
    ha = HighAvailability(place) if place else HighAvailability(lease=lease_s)
    job = ledger.start(
        patience=Patience(lease_s=2.0, silence_s=5.0),
        election=election_of(ha, "ledger", ledger.directory),
        restore="latest-or-new",
        log_slots=1_000_000,
    )
    ended = threading.Event()
    teller = threading.Thread(target=tell, args=(job, ended))
    teller.start()
    try:
        job.wait(progress=False)
    finally:
        ended.set()
        teller.join()
        print(*(f"# {each}" for each in job.recoveries()), job.status, sep="\n", flush=True)


def tell(job: RemoteJob, ended: threading.Event) -> None:
    told = ""
    while not ended.wait(0.02):
        if job.status != told:
            told = job.status
            print(told, flush=True)


if __name__ == "__main__":
    main()

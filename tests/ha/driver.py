"""One of several drivers of a job, in a process of its own: it prints its status when that changes.

::

    python -m tests.ha.driver FOLDER COUNT RATE STORE LEASE WALL_SHIFT DEATHS \\
        [PROTOCOL DSN [ORIGIN]]

The store is ``files``, or the hosts of ZooKeeper; the wall clock of the process is ahead by so many
seconds; so many commits kill their driver. With a protocol the state is in PostgreSQL, and the
manifests that are deleted are kept in ``archive``; the origin is a savepoint. At the end it tells
its recoveries, in lines that begin with ``#``.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from mainstay.api.availability import HighAvailability, ZooKeeper
from mainstay.drive.electing import election_of
from mainstay.drive.remote_job import Patience, RemoteJob
from mainstay.snapshot.layout import MANIFEST_PREFIX
from mainstay.snapshot.object_storage import ObjectStorage
from tests.drive.ledger import LedgerJob
from tests.ha.external_job import external_job

QUICK = Patience(lease_s=2.0, silence_s=5.0)
SLOW = Patience(lease_s=4.5, silence_s=10.0)
"""With a database server beside it a job gets on more slowly."""


def main() -> None:
    folder, count, rate, store, lease, shift, deaths, *external = sys.argv[1:]
    right, ahead_s, lease_s = time.time, float(shift), float(lease)
    time.time = lambda: right() + ahead_s
    size: Any = {"count": int(count), "per_second": float(rate)}
    protocol, dsn, origin = [*external, None, None, None][:3]
    if protocol and dsn:
        ledger = external_job(Path(folder), protocol, dsn, **size)
        keep_manifests(Path(folder) / "archive")
    else:
        ledger = LedgerJob(Path(folder), **size, workers=2, deaths=int(deaths))
    # A test that was given up leaves nodes behind, for the length of a session.
    path = f"/{Path(folder).name}"
    place = None if store == "files" else ZooKeeper(store, path=path, session=lease_s)
    ha = HighAvailability(place) if place else HighAvailability(lease=lease_s)
    job = ledger.start(
        patience=SLOW if protocol else QUICK,
        election=election_of(ha, "ledger", ledger.directory),
        restore="new" if origin else "latest-or-new",
        origin=origin,
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


def keep_manifests(archive: Path) -> None:
    """Have manifests kept that this process deletes: a check needs those of all epochs."""
    right = ObjectStorage.delete

    def delete(self: ObjectStorage, *paths: str) -> None:
        for path in paths:
            if path.startswith(MANIFEST_PREFIX):
                draft = archive / f".{Path(path).name}.{os.getpid()}"
                draft.write_bytes(self.read(path))
                draft.replace(archive / Path(path).name)
        right(self, *paths)

    ObjectStorage.delete = delete  # type: ignore[method-assign]


def tell(job: RemoteJob, ended: threading.Event) -> None:
    told = ""
    while not ended.wait(0.02):
        if job.status != told:
            told = job.status
            print(told, flush=True)


if __name__ == "__main__":
    main()

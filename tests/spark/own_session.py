"""A program of a user's, on a local session that Mainstay starts: run by the tests of errors."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory, Sequence


class Raising(ms.Process):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def process(self, row: Any, ctx: Any) -> Any:
        if row.id == 100:
            raise self.error
        return row


def main(directory: str, how: str) -> None:
    snapshots = ms.Snapshots(directory, every="200ms")
    restart = ms.Restart(max_failures=1, backoff="100ms")
    env = ms.Environment(parallelism=2, snapshots=snapshots, restart=restart)
    rows = env.source(Sequence(rows_per_second=200), uid="in")
    if how == "raise":
        error = LookupError("no such order")
        rows = rows.process(Raising(error), "id long", uid="function")
    if how == "interrupt":
        rows = rows.process(Raising(KeyboardInterrupt()), "id long", uid="function")
    rows.sink(Memory(), uid="out")
    job = env.start("own")
    if how in ("stop", "kill"):
        from pyspark.sql import SparkSession

        while not [record for record in job.snapshots() if record.status == "complete"]:
            job.wait(0.05)
        session = SparkSession.getActiveSession()
        assert session is not None
        if how == "stop":
            session.stop()
        else:
            context: Any = session.sparkContext
            os.kill(context._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
    job.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

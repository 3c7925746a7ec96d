"""Side outputs between real processes: the job travels pickled, and a worker is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import mainstay as ms
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_attempt

ROW = "id long, k long"
WORKERS = 2
COUNT = 6_000


class Divided(ms.Process):
    """Odd ids go into a side output, and all of them into one that nobody reads."""

    odd = ms.SideOutput(ROW)
    unread = ms.SideOutput("id long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.unread.emit((row.id,))
        if row.id % 2:
            return self.odd.emit(tuple(row))
        return tuple(row)


def divided(ids: Any) -> Any:
    even = ids.process(Divided(), ROW, uid="divided")
    return even.side("odd").map(tuple, ROW, uid="odd").union(even)


def test_every_row_counts_once_whichever_output_it_takes(tmp_path: Path) -> None:
    ledger = LedgerJob(
        tmp_path, count=COUNT, per_second=6_000, workers=WORKERS, mode="unaligned", before=divided
    )
    job = ledger.start()
    pids = await_attempt(job, 1, WORKERS)
    os.kill(pids[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    ledger.check()
    counted = [each.sides["divided"] for each in job.metrics().values() if each.sides]
    assert len(counted) == WORKERS, "each subtask says what its side outputs got"
    assert sum(each["unread"] for each in counted) >= sum(each["odd"] for each in counted) > 0

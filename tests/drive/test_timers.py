"""Timers of jobs on plain processes, some of which are killed."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from tests.drive.ledger import PATIENCE_S, Ledger, LedgerJob, await_attempt

FIRST = datetime(2020, 1, 1, tzinfo=timezone.utc)


class InItsTime(Ledger):
    """Passes an id on when its timer fires; the time of that says which id it is."""

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.add(row.id)
        ctx.timers.processing_time(FIRST + timedelta(microseconds=row.id))

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        return ctx.key, (at - FIRST) // timedelta(microseconds=1)


def test_every_timer_fires_once_though_workers_are_killed(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, function=InItsTime())
    job = ledger.start()
    for attempt in (1, 2):
        os.kill(await_attempt(job, attempt, 3)[attempt % 3], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 3
    ledger.check()

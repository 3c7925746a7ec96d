"""Functions that wait, in real processes one of which is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.drive.ledger import PATIENCE_S, LedgerJob, await_attempt

ROW = "id long, k long"
WORKERS = 2


async def asked(row: Any) -> Any:
    await asyncio.sleep(0.001)
    return tuple(row)


def asked_in_a_thread(row: Any) -> Any:
    return tuple(row)


@pytest.mark.parametrize("function", [asked, asked_in_a_thread])
def test_every_row_has_its_result_once_although_a_worker_is_killed(
    tmp_path: Path, function: Any
) -> None:
    def called(ids: Any) -> Any:
        return ids.map_async(function, ROW, ordered=False, uid="asked")

    ledger = LedgerJob(
        tmp_path, count=4_000, per_second=4_000, workers=WORKERS, mode="unaligned", before=called
    )
    job = ledger.start()
    pids = await_attempt(job, 1, WORKERS)
    os.kill(pids[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    ledger.check()

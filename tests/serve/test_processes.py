"""A job with workers in processes of their own, of which one is killed: what its service tells."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.serve.server import Server
from tests.drive.ledger import LedgerJob, await_attempt
from tests.serve.jobs import API, await_true, client_of

WORKERS = 3


def test_a_killed_worker_is_told_of_and_the_figures_are_those_of_the_next_attempt(
    tmp_path: Path,
) -> None:
    ledger = LedgerJob(tmp_path)
    job: Any = ledger.start()
    Server(ms.Ui()).serve(job, ledger.directory)
    with client_of(job.url) as client:
        pids = await_attempt(job, 1, WORKERS)
        await_true(lambda: client.get("/readyz").status_code == 200, "it is ready")
        os.kill(pids[1], signal.SIGKILL)
        await_attempt(job, 2, WORKERS)
        await_true(lambda: client.get(f"{API}/recoveries").json(), "the next attempt runs")
        failure = client.get(f"{API}/failures").json()[0]
        assert (failure["attempt"], failure["outcome"]) == (1, "restarted")
        assert "SIGKILL" in failure["cause"]
        ledger.hurry.touch()
        assert job.wait(60, progress=False) == "finished"
        tasks = client.get(f"{API}/tasks").json()
        assert tasks["attempt"] == 2
        subtasks = [each for task in tasks["tasks"] for each in task["subtasks"]]
        assert len(subtasks) == len(tasks["tasks"]) * WORKERS
        # Each process has counted its own time.
        assert all(each["busy_total_s"] > 0 for each in subtasks)
        groups = client.get(f"{API}/key_groups/ledger").json()
        assert {each["subtask"] for each in groups["groups"]} == set(range(WORKERS))
    ledger.check()
    job.server.close()

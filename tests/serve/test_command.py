"""The command that serves a directory."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx

COMMAND = [sys.executable, "-c", "from mainstay.cli import main; main()", "ui"]


def test_a_directory_is_served_until_it_is_interrupted(finished_directory: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, str(finished_directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as served:
        assert served.stdout is not None
        address, token = served.stdout.readline().strip().split("/#token=")
        told = {"Authorization": f"Bearer {token}"}
        found = httpx.get(f"{address}/api/v1/job", headers=told).json()
        assert (found["status"], found["is_live"]) == ("finished", False)
        assert httpx.get(f"{address}/api/v1/job").status_code == 401
        served.send_signal(signal.SIGINT)
        assert served.wait(30) == 0


def test_what_is_no_directory_of_a_job_is_said_at_once(tmp_path: Path) -> None:
    found = subprocess.run([*COMMAND, str(tmp_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert str(tmp_path) in found.stderr
    assert "Traceback" not in found.stderr

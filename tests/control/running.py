"""Real programs in processes of their own, and the command that is called for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.control.sight import look
from mainstay.registry.folder import read_entries

PROGRAM = Path(__file__).with_name("program.py")
KEYS = 3
PATIENCE_S = 60.0


class Shell:
    """Calls commands with a registry of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = folder / "registry"
        self.environment = {**os.environ, "MAINSTAY_REGISTRY": str(self.registry)}
        self.environment.pop("MAINSTAY_TOKEN", None)

    def mainstay(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mainstay.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**self.environment, **more},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
        )

    def jobs(self, *options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.mainstay("jobs", "--json", *options).stdout)
        return found

    def job(self, name: str) -> dict[str, Any]:
        (found,) = [each for each in self.jobs() if each["name"] == name]
        return found

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(file.read_text()) for file in self.registry.glob("*.json")]

    @contextmanager
    def program(self, name: str, directory: str = "") -> Iterator[subprocess.Popen[str]]:
        """A job that runs and has committed something for each of its keys."""
        place = self.folder / (directory or name)
        command = [sys.executable, str(PROGRAM), str(place), name]
        with self.process(command) as process:
            await_true(lambda: self._is_running(process.pid), f"job {name!r} runs")
            yield process

    def _is_running(self, pid: int) -> bool:
        entries = read_entries(self.registry)
        found = [look(file, entry) for file, entry in entries if entry.pid == pid]
        if not found or found[0].status != "running" or not found[0].epoch:
            return False
        return len(ms.connect(found[0].entry.place).query("counts.seen").rows()) == KEYS

    @contextmanager
    def process(self, command: list[str]) -> Iterator[subprocess.Popen[str]]:
        """Something that runs until the test is over."""
        process = subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()


def await_true(is_true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.05)

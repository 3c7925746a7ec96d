"""The disk of the snapshots: a small one of its own, that can be filled and made read-only."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

SIZE = "256m"
TRIES_S = 3.0


class BusyDiskError(Exception):
    """Somebody was writing all the time."""


class SmallDisk:
    """A mount, where there may be one; otherwise ``reason`` says why its events are left out."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.reason: str | None = None
        self._lock = threading.Lock()
        place.mkdir(parents=True)
        if os.geteuid() != 0:
            self.reason = "only root can mount a small disk"
            return
        done = self._run("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place))
        if done.returncode:
            self.reason = f"no small disk can be mounted: {done.stderr.strip()}"

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True)

    def fill(self, seconds: float) -> None:
        """No byte is free for so long."""
        with self._lock:
            ballast = self.place / "ballast"
            try:
                with ballast.open("wb") as file:
                    until = time.monotonic() + seconds
                    while (left_s := until - time.monotonic()) > 0:
                        _take_all(file.fileno())
                        threading.Event().wait(min(0.2, left_s))
            finally:
                ballast.unlink()

    def be_read_only(self, seconds: float) -> None:
        """It may not be made so while a file is being written: it is tried until it can be."""
        with self._lock:
            until = time.monotonic() + TRIES_S
            while (done := self._remount("ro")).returncode:
                if time.monotonic() > until:
                    raise BusyDiskError(f"the disk cannot be read-only: {done.stderr.strip()}")
            try:
                threading.Event().wait(seconds)
            finally:
                self._remount("rw")

    def _remount(self, how: str) -> subprocess.CompletedProcess[str]:
        return self._run("mount", "-o", f"remount,{how}", str(self.place))

    def close(self) -> None:
        if self.reason is None:
            self._run("umount", "-l", str(self.place))


def _take_all(descriptor: int) -> None:
    block = bytes(65_536)
    try:
        while True:
            os.write(descriptor, block)
    except OSError:
        return  # that is what was wanted

"""Whether a process is still the one that was noted: by its pid and the time it was started.

A pid alone is given to another process sooner or later, at the latest after a reboot.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19
"""Which of the fields after the command's name in ``/proc/PID/stat`` is the start time."""
_ASK_S = 5.0


def start_mark(pid: int) -> str | None:
    """A text that no other process with this pid has had or will have; None if there is none."""
    if pid <= 0:
        return None
    return _from_proc(pid) if Path("/proc/self/stat").exists() else _from_ps(pid)


def is_alive(pid: int, mark: str | None) -> bool:
    """Where no mark could be had, any process with the pid is taken for the one that is meant."""
    return Path(f"/proc/{pid}").exists() if mark is None else start_mark(pid) == mark


def _from_proc(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name is in parentheses, and may have any sign in it.
    state, *fields = text.rpartition(")")[2].split()
    if state in ("Z", "X"):
        return None  # it has ended, and its parent has not asked how
    boot = _BOOT.read_text().strip() if _BOOT.exists() else ""
    return f"{boot}:{fields[_STARTED - 1]}"


def _from_ps(pid: int) -> str | None:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None

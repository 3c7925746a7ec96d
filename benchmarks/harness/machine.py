"""The machine that figures come from: what it is, and how busy others kept it meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

BUSY_SHARE = 0.10
"""A run during which others had more of the processors than this is marked as disturbed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What explains figures, as far as a program can find it out."""

    cores: int
    model: str
    memory_gb: float
    kernel: str
    python: str

    def __str__(self) -> str:
        return (
            f"{self.cores} cores ({self.model}), {self.memory_gb:.0f} GB of memory, "
            f"{self.kernel}, {self.python}"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def machine() -> Machine:
    return Machine(
        os.cpu_count() or 1,
        _model(),
        round(psutil.virtual_memory().total / 1e9, 1),
        f"{platform.system()} {platform.release()} ({platform.machine()})",
        f"{platform.python_implementation()} {platform.python_version()}",
    )


def _model() -> str:
    """The name of the processors, which Python does not know on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []  # another system than Linux
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown model"


def load() -> float:
    """How many processes wanted to run in the last minute, on average."""
    return round(os.getloadavg()[0], 2)


def busy_s() -> float:
    """Seconds that all processors have worked since the machine started, what was stolen included.

    Time that a hypervisor gave to other machines is time that others had.
    """
    times = psutil.cpu_times()
    worked = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in worked))


def commit(repository: Path) -> str:
    """The commit that is measured, and whether there is more than it; empty where nobody knows."""
    asked = ["git", "-C", str(repository), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True)
    except FileNotFoundError:
        return ""  # a machine without git
    return found.stdout.strip() if found.returncode == 0 else ""


def disturbance(shares: Sequence[float], load_before: float, load_after: float) -> str:
    """How far others disturbed the runs, for the head of a report."""
    loads = f"Load {load_before:.2f} before and {load_after:.2f} after."
    disturbed = sum(share > BUSY_SHARE for share in shares)
    if not disturbed:
        return f"{loads} The machine was quiet: in no run others had over {BUSY_SHARE:.0%} of it."
    return (
        f"{loads} **The machine was busy**: in {disturbed} of {len(shares)} runs others had over "
        f"{BUSY_SHARE:.0%} of the processors, {max(shares):.0%} at most. Rates of such runs are "
        "too low; CPU time a record tells more."
    )

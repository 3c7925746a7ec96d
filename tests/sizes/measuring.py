"""Work in a process of its own that is held to an amount of memory: its own, and its children's."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PATIENCE_S = 1_500.0


def within(most_gb: float, work: Callable[..., None], *args: Any) -> None:
    """Run something large; no process of it may have taken more than so many gigabytes."""
    assert (used := most_used_gb(work, *args)) < most_gb, f"{used:.2f} GB of {most_gb} GB"


def most_used_gb(work: Callable[..., None], *args: Any) -> float:
    """What the largest process of some work has taken, measured there: this process has others."""
    context = multiprocessing.get_context("spawn")
    told, tells = context.Pipe(duplex=False)
    process = context.Process(target=_measured, args=(tells, work, args))
    process.start()
    tells.close()
    process.join(PATIENCE_S)
    if process.is_alive():
        process.kill()
    process.join()
    assert process.exitcode == 0
    return int(told.recv()) / 1e9


def _measured(tells: Connection, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    began = time.monotonic()
    work(*args)
    used = max(_own_peak(), _maxrss(resource.RUSAGE_CHILDREN))
    seconds = time.monotonic() - began
    print(f"{work.__name__}{args[1:]}: {seconds:.1f} s, {used >> 20} MB", flush=True)
    tells.send(used)


def _own_peak() -> int:
    """The most bytes that this program has had. What the process had been before it began the
    program is in its resource usage too: a copy of its parent, for a moment."""
    status = Path("/proc/self/status")
    if not status.exists():
        return _maxrss(resource.RUSAGE_SELF)
    (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def _maxrss(who: int) -> int:
    """Bytes; macOS counts these, Linux kilobytes."""
    return resource.getrusage(who).ru_maxrss << (0 if sys.platform == "darwin" else 10)

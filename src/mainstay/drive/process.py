"""Settings of the interpreter for a process that is a worker and nothing else.

Two things would otherwise stop the loop: the garbage collector, which walks every container that
is alive, and so the state; and the interpreter's switch interval, which makes a background thread
wait milliseconds for its turn. A worker also opens as many files and sockets as its user may.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_S = 0.0005
MOST_FILES = 65_536
THRESHOLDS = (50_000, 20, 100)


def settle_process() -> None:
    """Make this process a good home for a worker. Not for processes that belong to a user."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    raise_file_limit()


def raise_file_limit() -> None:
    """Open as many files as the hard limit allows, beyond the usual 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def settled_process() -> Iterator[None]:
    """The same for a while: Spark may give the process to another task afterwards.

    A process that was forked from one with frozen objects has them already, and keeps them.
    """
    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    was_frozen = gc.get_freeze_count() > 0
    settle_process()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)

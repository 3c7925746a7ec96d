"""Notices: a line for each thing that takes time at the beginning of a job or of an attempt.

They are logged as information. A terminal shows them too: those of a running job while somebody
waits for it with a progress line, and what happens before at once.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import deque
from collections.abc import Sequence

from mainstay.drive.streams import is_terminal, tell
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.status import AttemptRecord, Status
from mainstay.spelling import counted

MOST = 50
"""How many are kept where nobody watches."""

_log = logging.getLogger("mainstay")


def say_at_once(text: str) -> None:
    """For what is done before there is a job to wait for."""
    _log.info(text)
    if is_terminal(sys.stderr):
        tell(f"mainstay: {text}")


class Notices:
    """The notices of one job, for its watcher to take."""

    def __init__(self, job: str) -> None:
        self._lines: deque[str] = deque(maxlen=MOST)
        self._job = job
        self._running: int | None = None

    def launched(self, deployment: Deployment, record: AttemptRecord) -> None:
        """The workers of an attempt are being started."""
        workers = deployment.job.workers
        self._add(f"starting {counted(workers, 'worker')}")
        if record.restored_from is not None:
            self._add(f"going on from epoch {record.restored_from}")
        rows, size_bytes = restored_size(deployment)
        if rows:
            self._add(f"restoring {counted(rows, 'row')} of state, {size_bytes / 1e6:,.1f} MB")

    def update(self, status: Status, attempts: Sequence[AttemptRecord]) -> None:
        if status is Status.RUNNING and self._running != attempts[-1].attempt:
            self._running = attempts[-1].attempt
            self._add("running" if len(attempts) == 1 else f"running (attempt {self._running})")

    def pass_on(self, remarks: deque[str]) -> None:
        """Take what the coordinator has to say."""
        while remarks:
            self._add(remarks.popleft())

    def take(self) -> list[str]:
        """Those that nobody has taken yet, oldest first."""
        taken = []
        # Two threads may take: the one that waits for the job, and the job's own before a warning.
        with contextlib.suppress(IndexError):
            while True:
                taken.append(self._lines.popleft())
        return taken

    def _add(self, text: str) -> None:
        self._lines.append(f"{self._job}: {text}")
        _log.info("job %r: %s", self._job, text)


def restored_size(deployment: Deployment) -> tuple[int, int]:
    """The rows and the bytes of the keyed state that an attempt starts from.

    A file that several subtasks take their parts of counts once.
    """
    files = {ref.file: ref for state in deployment.restored.values() for ref in state.chain}
    rows = sum(ref.rows for ref in files.values())
    return rows, sum(ref.size_bytes for ref in files.values())
